"""A conversation that its client changes a little at nearly each turn."""

from __future__ import annotations

import enum
import statistics
from dataclasses import dataclass
from itertools import cycle, islice, takewhile
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import check_in_prefill, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.harness.prompts import Prompt
    from bench.client.harness.trace import Trace
    from bench.client.harness.turn import Measurement

Pieces: TypeAlias = "tuple[int | str, ...]"
"""Token ids, or words for a server that takes only text."""

SURE = 100
"""The logit bias of the token that an answer is made of."""

EARLIEST, LATEST = 0.2, 0.7
"""When a client hangs up in a prompt: between these shares of the time that its new tokens take."""


class Kind(enum.StrEnum):
    """What a turn changes, in the order in which turns do."""

    NEXT = "next turn"
    DROPPED = "dropped thought"
    LEFT_PROMPT = "hang-up in a prompt"
    LEFT_ANSWER = "hang-up in an answer"
    EDIT = "edit"


@dataclass(frozen=True, slots=True)
class Asked:
    """A turn: its kind, its time to first token, and the tokens of its prompt that were known and that were cached."""

    kind: Kind
    ttft: float
    known: float
    cached: int | None

    @property
    def used(self) -> float:
        """Known tokens that were not computed again."""
        return min(self.known, self.cached or 0)


@dataclass(frozen=True)
class Nudge:
    """Hold a conversation that its client changes a little at nearly each turn: what is computed again?

    Each turn is one of five, in this order: a message behind the whole answer; one behind other tokens, half as many,
    as where a template drops the thought that an answer began with; a long one whose client hangs up while it is read,
    and sends it again; one whose client hangs up in the answer, and sends it again; the last message with another end.

    Known is the longest beginning that a prompt shares with anything that was computed before; of a prompt that was
    left, as much as the receipt says, or else as its share of the time tells.  A logit bias makes each answer one token
    again and again, so that the client knows its ids.  For a server that takes only text answers are replaced by other
    words, of which it knows none.
    """

    name: ClassVar[str] = "nudge"

    turns: int = size(20, "Turns of the conversation.")
    begin: int = size(512, "Tokens of the first prompt.")
    message: int = size(64, "Tokens of each message, half of which an edit changes.")
    answer: int = size(64, "Tokens of each answer, half of which are a thought where it is dropped.")
    pasted: int = size(512, "Tokens of a message whose client hangs up while it is read.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures of each kind of turn, and of each turn."""
        talk = _Conversation(turn, self.answer)
        turn.note(f"turn 1 of {self.turns}")
        talk.say(_pieces(turn.prompts.make(self.begin)))
        seconds = (await talk.ask(Kind.NEXT)).ttft / self.begin
        asked = []
        for number, kind in enumerate(islice(cycle(Kind), self.turns - 1), start=2):
            turn.note(f"turn {number} of {self.turns}: {kind}")
            asked.append(await self._once(turn, talk, kind, seconds))
        by_turn = [figure for number, one in enumerate(asked, start=2) for figure in _of_turn(number, one)]
        return [*_by_kind(asked), *by_turn]

    async def _once(self, turn: Measurement, talk: _Conversation, kind: Kind, seconds: float) -> Asked:
        """Take a turn; `seconds` are those of a token of a prompt."""
        before, new = (*talk.prompt, *talk.answer), self.message
        if kind is Kind.DROPPED:
            before = (*talk.prompt, *_pieces(turn.prompts.make(self.answer // 2)))
        elif kind is Kind.EDIT:
            new = self.message // 2
            before = talk.prompt[:-new]
        elif kind is Kind.LEFT_PROMPT:
            new = self.pasted
        talk.say((*before, *_pieces(turn.prompts.make(new))))
        if kind is Kind.LEFT_PROMPT:
            return await talk.ask_again(new, turn.rng.uniform(EARLIEST, LATEST), seconds)
        if kind is Kind.LEFT_ANSWER:
            left = await hang_up(turn.client, talk.spec, tokens=self.answer // 2)
            talk.note(len(talk.prompt) + left.tokens - 1)
        return await talk.ask(kind)


class _Conversation:
    """A conversation: what was said last, and what has been computed of it.

    Args:
        turn: whose server is asked.
        answer: tokens of each answer.

    Attributes:
        prompt, answer: the last ones.
        spec: the request for them.
    """

    def __init__(self, turn: Measurement, answer: int) -> None:
        self._turn = turn
        self._tokens = answer
        self._computed: list[Pieces] = []
        self._told: Pieces = ()  # what is known of an answer
        self.prompt: Pieces = ()
        self.answer: Pieces = ()
        self.spec = RequestSpec("", answer)

    def say(self, prompt: Pieces) -> None:
        """Choose what is asked next, and the answer."""
        self.prompt = prompt
        chosen = self._turn.prompts.make(1)
        if isinstance(chosen, str):
            self.answer, self._told = _pieces(self._turn.prompts.make(self._tokens)), ()
            self.spec = RequestSpec(" ".join(cast("tuple[str, ...]", prompt)), self._tokens)
        else:
            self.answer = self._told = chosen * self._tokens
            bias = {"logit_bias": {str(chosen[0]): SURE}}
            self.spec = RequestSpec(cast("tuple[int, ...]", prompt), self._tokens, fields=bias)

    def note(self, tokens: int) -> None:
        """Note that so many tokens of the prompt and its answer were computed."""
        self._computed.append((*self.prompt, *self._told)[:tokens])

    async def ask(self, kind: Kind, left: Trace | None = None, estimate: int = 0) -> Asked:
        """Ask, and wait for the whole answer; `left` is the request before it that was left in its prompt."""
        trace = await self._turn.client.send(self.spec)
        if left is not None:
            receipt = await self._turn.client.receipt(left)
            self.note(receipt["cached_tokens"] + receipt["computed_tokens"] if receipt else estimate)
        known = self._known() * (trace.prompt_tokens or len(self.prompt)) / len(self.prompt)  # a word may be two tokens
        self.note(len(self.prompt) + self._tokens - 1)  # the last one is drawn, and not computed
        return Asked(kind, trace.ttft, known, trace.cached_tokens)

    async def ask_again(self, new: int, share: float, seconds: float) -> Asked:
        """Hang up when a share of the prompt's `new` tokens has been read, and ask."""
        left = await hang_up(self._turn.client, self.spec, after=share * new * seconds)
        check_in_prefill(left)
        return await self.ask(Kind.LEFT_PROMPT, left, len(self.prompt) - int((1 - share) * new))

    def _known(self) -> int:
        """Return how much of the prompt was computed before; its last token always is anew."""
        return min(max((_shared(self.prompt, one) for one in self._computed), default=0), len(self.prompt) - 1)


def _pieces(prompt: Prompt) -> Pieces:
    return tuple(prompt.split()) if isinstance(prompt, str) else prompt


def _shared(one: Pieces, other: Pieces) -> int:
    """Return how many pieces both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _by_kind(asked: Sequence[Asked]) -> list[Figure]:
    """Return which share of what was known was used again, and means over the turns of each kind, and over all."""
    cases = {kind.value: [one for one in asked if one.kind is kind] for kind in Kind} | {"all turns": list(asked)}
    figures = []
    for case, ones in cases.items():
        known = sum(one.known for one in ones)
        if known and all(one.cached is not None for one in ones):
            used = sum(one.used for one in ones)
            figures += [
                Figure("used again of what was known", used / known, "", Better.HIGHER, case),
                Figure("computed again, mean", (known - used) / len(ones), "tokens", Better.LOWER, case),
            ]
        if ones:
            ttft = statistics.fmean(one.ttft for one in ones)
            figures.append(Figure("time to first token, mean", ttft, "s", Better.LOWER, case))
    return sorted(figures, key=lambda figure: figure.name, reverse=True)


def _of_turn(number: int, one: Asked) -> list[Figure]:
    case = f"turn {number}, {one.kind}"
    again = [] if one.cached is None else [Figure("computed again", one.known - one.used, "tokens", Better.LOWER, case)]
    return [*again, Figure("time to first token", one.ttft, "s", Better.LOWER, case)]
