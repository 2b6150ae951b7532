"""Stand-in grammars: which tokens may follow is a pure function of the exact tokens of the output.

Only the library is stood in for: matchers, masks and what the actors do with them are those that serve.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, cast

import trio

from runtime.grammar.compiler import CompiledGrammar
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.sampling.random_numbers import splitmix64

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from llguidance import LLMatcher

    from runtime.grammar.masks import Mask
    from runtime.grammar.worker import MaskComputer
    from tests.sim.device import Faults

CLASSES = 5
"""A token is allowed by its remainder, so that there is one of each kind in the smallest vocabulary, too."""

MASK_TOKENS = 416
"""Bits of a mask; more than there are tokens."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A grammar: outputs of so many tokens, some of which are forbidden at each place.

    Attributes:
        seed: of what is forbidden.
        length: with so many tokens an output is complete.
        fails_at: after so many the library gives up; None if it never does.
    """

    seed: int
    length: int
    fails_at: int | None = None

    @property
    def grammar(self) -> Grammar:
        """This one, as a request has it."""
        return Grammar(GrammarKind.LARK, json.dumps(astuple(self)))

    @classmethod
    def of(cls, grammar: Grammar) -> Rule:
        """The rule that a request's grammar is."""
        return cls(*json.loads(grammar.source))

    def classes(self, output: Sequence[int]) -> set[int]:
        """Return what may follow: at least one of the classes, and in every fourth place one alone."""
        state = splitmix64(self.seed)
        for token_id in output:
            state = splitmix64(state ^ token_id)
        allowed = {number for number in range(CLASSES) if state >> number & 1}
        return allowed if state % 4 and allowed else {state % CLASSES}

    def allows(self, output: Sequence[int], token_id: int) -> bool:
        """Return whether a token may follow an output that is not complete."""
        return token_id % CLASSES in self.classes(output)

    def draw(self, output: Sequence[int], token_id: int, vocabulary: int) -> int:
        """The token that a model draws which would draw this one."""
        return drawn_under(lambda token: self.allows(output, token), token_id, vocabulary)


def drawn_under(allows: Callable[[int], bool], token_id: int, vocabulary: int) -> int:
    """The first token that is allowed, from this one on."""
    return next(token for i in range(vocabulary) if allows(token := (token_id + i) % vocabulary))


class StandInLibrary:
    """Stand-in for llguidance's matcher, with what `Matcher` asks of it."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._output: list[int] = []
        self._error = ""

    def deep_copy(self) -> StandInLibrary:
        """A fresh one."""
        return StandInLibrary(self._rule)

    def is_error(self) -> bool:
        """Return whether it gave up, or was given a token that is forbidden."""
        return bool(self._error)

    def get_error(self) -> str:
        """Return why."""
        return self._error

    def is_stopped(self) -> bool:
        """Return whether the output is complete."""
        return len(self._output) >= self._rule.length

    def consume_token(self, token_id: int) -> bool:
        """Take a token."""
        if self.is_stopped() or not self._rule.allows(self._output, token_id):
            self._error = f"token {token_id} is forbidden after {len(self._output)}"
            return False
        self._output.append(token_id)
        return True

    def rollback(self, tokens: int) -> bool:
        """Give tokens back."""
        del self._output[len(self._output) - tokens :]
        return True

    def compute_bitmask(self) -> bytes:
        """Return what may follow; anything where the output is complete."""
        if self._rule.fails_at is not None and len(self._output) >= self._rule.fails_at:
            self._error = "a planned failure"
            return b""
        classes = set(range(CLASSES)) if self.is_stopped() else self._rule.classes(self._output)
        bits = sum(1 << token for token in range(MASK_TOKENS) if token % CLASSES in classes)
        return bits.to_bytes(MASK_TOKENS // 8, "little")

    def validate_tokens(self, token_ids: Sequence[int]) -> int:
        """Return how many may follow."""
        output = list(self._output)
        for count, token_id in enumerate(token_ids):
            if len(output) >= self._rule.length or not self._rule.allows(output, token_id):
                return count
            output.append(token_id)
        return len(token_ids)

    def compute_ff_tokens(self) -> list[int]:
        """A token of the only class that may follow, where there is one."""
        classes = set() if self.is_stopped() else self._rule.classes(self._output)
        return [*classes] if len(classes) == 1 else []


class StandInMasks:
    """Computes each mask at once, unless masks are late: then the device has to do it when it takes them."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def submit(self, mask: Mask) -> None:
        """Compute the mask, or leave it."""
        if not self._faults.late_masks:
            mask.take()


class StandInGrammars:
    """Compiles rules, and computes masks without threads."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Compile a rule."""
        await trio.lowlevel.checkpoint()
        library: Any = StandInLibrary(Rule.of(grammar))
        return CompiledGrammar(cast("LLMatcher", library), MASK_TOKENS // 8)

    @contextmanager
    def masks(self) -> Iterator[MaskComputer]:
        """Yield what computes them."""
        yield StandInMasks(self._faults)


def drawn_rule(dice: random.Random) -> Rule:
    """Draw a rule, of which some cannot be computed from some token on."""
    fails_at = dice.randint(0, 6) if dice.random() < 0.1 else None
    return Rule(dice.randrange(1000), dice.choice([1, 3, 8, 100]), fails_at)
