"""The parts of a request's answers, generation by generation, as each API needs them, and how likely tokens were."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from actors.core.generation import FinishReason, PromptScored, Token
from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from actors.core.generation import Finished, Progress
    from runtime.chat.parts import OutputParser, Part
    from runtime.text.tokenizer import Tokenizer


class WholeCalls:
    """Holds each call back until it is whole.  Its length is the characters that it holds.

    A broken call cannot be shown where arguments are an object: nobody should run it.  It is text then.
    """

    def __init__(self) -> None:
        self._start: CallStart | None = None  # of the call that is held
        self._pieces: list[str] = []
        self._length = 0
        self._said = False  # a text came

    def __len__(self) -> int:
        """Return the number of characters that are held."""
        return self._length

    def of(self, parts: Iterable[Part], *, last: bool) -> Iterator[Part]:
        """Yield what can be shown now; `last` says that no more parts follow."""
        for part in parts:
            match part:
                case CallArguments(_, text) if self._start is not None:
                    self._pieces.append(text)
                    self._length += len(text)
                    continue
                case CallEnd(call) if self._start is not None:
                    yield self._start
                    yield CallArguments(call, "".join(self._pieces) or "{}")
                    self._start = None
                case _ if self._start is not None:
                    yield self._broken(self._start)
            self._pieces.clear()
            self._length = 0
            if isinstance(part, CallStart):
                self._start = part
            else:
                self._said = self._said or isinstance(part, TextPart)
                yield part
        if last and self._start is not None:
            yield self._broken(self._start)

    def _broken(self, start: CallStart) -> TextPart:
        """Return a broken call as text; what the model wrote behind it follows."""
        line = "\n" if self._said else ""
        self._said, self._start = True, None
        return TextPart(f'{line}{{"name": {json.dumps(start.name)}, "arguments": {"".join(self._pieces)}')


class OneText:
    """Puts a line break between texts that a call stands between, where an API has one string for all of them."""

    def __init__(self) -> None:
        self._said = False
        self._called = False

    def of(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts of an answer."""
        for part in parts:
            if isinstance(part, CallStart):
                self._called = True
            if isinstance(part, TextPart) and part.text:
                yield TextPart(f"\n{part.text}") if self._said and self._called else part
                self._said, self._called = True, False
            else:
                yield part


TOOL_CALLS = "tool_calls"
"""The finish reason of an answer that calls tools, in the words of OpenAI."""


class AnswerParts:
    """Turns a request's events into parts; pure, and shared by the writers and collectors of all APIs.

    Args:
        parser: makes a generation's parser.
        generations: how many there are.
        whole_calls: a call is to be shown once it is whole, and a broken one as text.
        one_text: texts between calls are one string.

    Attributes:
        reasoning_tokens: how many tokens were thought, of all generations together, the markers before them included.
    """

    def __init__(
        self,
        parser: Callable[[], OutputParser],
        generations: int,
        *,
        whole_calls: bool = False,
        one_text: bool = False,
    ) -> None:
        self._parsers = [parser() for _ in range(generations)]
        self._whole = [WholeCalls() for _ in range(generations)] if whole_calls else []
        self._text = [OneText() for _ in range(generations)] if one_text else []
        self._begun = [0] * generations  # calls
        self._ended = [0] * generations
        self._silent = [0] * generations  # tokens since the last part: markers, or text that is held back
        self.reasoning_tokens = 0

    def of(self, event: Progress) -> Sequence[Part]:
        """Return the parts that an event makes certain; those that were held back come with the last."""
        if isinstance(event, PromptScored):  # of what the client wrote
            return ()
        index, parser = event.index, self._parsers[event.index]
        parts = parser.push(event.text)
        if isinstance(event, Token):
            self._count(index, parts)
        else:
            parts = [*parts, *parser.finish(cut=event.reason is not FinishReason.STOP)]
        for part in parts:
            self._begun[index] += isinstance(part, CallStart)
            self._ended[index] += isinstance(part, CallEnd)
        if self._whole:
            parts = list(self._whole[index].of(parts, last=not isinstance(event, Token)))
        return list(self._text[index].of(parts)) if self._text else parts

    @property
    def held(self) -> int:
        """Characters of calls that are not whole yet, where they are held back."""
        return sum(map(len, self._whole))

    def _count(self, index: int, parts: Sequence[Part]) -> None:
        """Count a token as thought if the parts that it, or the next, makes certain are."""
        self._silent[index] += 1
        if parts:
            if isinstance(parts[0], ReasoningPart):
                self.reasoning_tokens += self._silent[index]
            self._silent[index] = 0

    def reason(self, finished: Finished) -> str:
        """Return why a generation ended, in OpenAI's words; to be asked after its last parts.

        One with a broken call does not say that there are calls to carry out.
        """
        begun, ended = self._begun[finished.index], self._ended[finished.index]
        if finished.reason is FinishReason.STOP and begun and begun == ended:
            return TOOL_CALLS
        return finished.reason.value


class Alternative(TypedDict):
    """A token that was likely."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


def token_logprobs(token: Token, tokenizer: Tokenizer) -> TokenLogprobs:
    """Return the object of a token that was made with log-probabilities, with those of its alternatives in it."""
    assert token.logprobs is not None
    top = [_alternative(*alternative, tokenizer) for alternative in token.logprobs.top]
    return {**_alternative(token.token_id, token.logprobs.logprob, tokenizer), "top_logprobs": top}


def _alternative(token_id: int, logprob: float, tokenizer: Tokenizer) -> Alternative:
    text = tokenizer.token_text(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes(token_id))}
