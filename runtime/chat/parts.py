"""The parts of an answer: what the text that a model writes means.

Every wire format is written from these, so a call looks the same to a client of any API.  An `OutputParser` makes them
of the text as it comes; together the parts hold all of it but for the markers of the model's format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class TextPart:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The beginning of a tool call.

    Attributes:
        call: its number in the answer, from 0.
        name: of the tool.
        id: as the model wrote it; None where its format has none.
    """

    call: int
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of call `call`: the deltas together are the JSON, or a custom tool's text.

    The JSON is an object.  That of a call without an end is none: it stops in its middle.
    """

    call: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Call `call` is whole.  A call that is followed by anything else, or by nothing, is broken."""

    call: int


Part: TypeAlias = TextPart | ReasoningPart | CallStart | CallArguments | CallEnd


class OutputParser(Protocol):
    """Turns the text of one generation into parts, as it comes.  Pure; its cost does not grow with what came before."""

    def push(self, text: str) -> Sequence[Part]:
        """Take more of the text; return the parts that are certain now.  What may begin a marker is held back."""

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return what was held back, once no text follows.  What cannot be parsed is returned as text.

        Args:
            cut: a limit has ended the text, and not the model: where that is between a call's marker and its name,
                the beginning of the call is left out.
        """


class PlainParser:
    """Takes all text for text: for models, requests and endpoints without tools and reasoning."""

    def push(self, text: str) -> Sequence[Part]:
        """Return the text as a part."""
        return (TextPart(text),) if text else ()

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return nothing, for nothing is held back."""
        return ()
