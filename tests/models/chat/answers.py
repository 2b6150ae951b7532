"""Scripted answers: texts as models write them, with the parts that they are to become."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from runtime.chat.parts import CallArguments, CallEnd, CallStart, OutputParser, Part, ReasoningPart, TextPart


@dataclass
class Call:
    """A call of an answer."""

    name: str
    arguments: str = ""
    id: str | None = None
    whole: bool = False


@dataclass
class Answer:
    """Contents of an answer, however its parts came."""

    reasoning: str = ""
    text: list[str] = field(default_factory=list)  # before, between and after the calls
    calls: list[Call] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Answer:
        """Put the parts together; each call begins before its arguments, and nothing comes behind its end."""
        answer = cls(text=[""])
        for part in parts:
            match part:
                case TextPart(text):
                    assert text
                    answer.text[-1] += text
                case ReasoningPart(text):
                    assert text
                    assert answer.text == [""], "reasoning comes before text"
                    answer.reasoning += text
                case CallStart(call, name, call_id):
                    assert call == len(answer.calls)
                    answer.calls.append(Call(name, id=call_id))
                    answer.text.append("")
                case CallArguments(call, text):
                    assert text
                    assert call == len(answer.calls) - 1
                    assert not answer.calls[call].whole
                    answer.calls[call].arguments += text
                case CallEnd(call):
                    assert call == len(answer.calls) - 1
                    answer.calls[call].whole = True
        return answer


def read(parser: OutputParser, pieces: Iterable[str]) -> Answer:
    """Return what an answer says that comes in these pieces."""
    parts: list[Part] = []
    for piece in pieces:
        parts.extend(parser.push(piece))
    return Answer.of([*parts, *parser.finish()])


def splits(text: str, seed: int = 0, several: int = 10) -> Iterator[list[str]]:
    """Split a text at every position, at several random ones, and between all characters."""
    yield list(text)
    for at in range(len(text) + 1):
        yield [text[:at], text[at:]]
    numbers = random.Random(seed)
    for _ in range(several):
        cuts = sorted(numbers.sample(range(len(text) + 1), min(6, len(text))))
        yield [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def assert_read(parser: Callable[[], OutputParser], text: str, expected: Answer) -> None:
    """Check what a text says, however it is split."""
    for pieces in splits(text):
        assert read(parser(), pieces) == expected, pieces
