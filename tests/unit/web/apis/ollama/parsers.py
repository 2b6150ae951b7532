"""A parser whose text says which parts it stands for, and options for answers that are read by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from runtime.text.tokenizer import Tokenizer
from tests.fakes.byte_tokenizer import ByteTokenizer
from web.apis.ollama.answers import AnswerOptions, message_shape

NOON = 43_200.0  # of the first day of the epoch


class ScriptedParser:
    """Reads a token of text by its first character: `?` thinks, `(name` begins a call, `,` goes on, `)` ends it."""

    def __init__(self) -> None:
        self._call = -1

    def push(self, text: str) -> Sequence[Part]:
        """Return the part that a token stands for."""
        kind, rest = text[:1], text[1:]
        match kind:
            case "":
                return ()
            case "?":
                return (ReasoningPart(rest),)
            case "(":
                self._call += 1
                return (CallStart(self._call, rest),)
            case ",":
                return (CallArguments(self._call, rest),)
            case ")":
                return (CallEnd(self._call),)
        return (TextPart(text),)

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return nothing."""
        return ()


def options(**changes: Any) -> AnswerOptions:  # noqa: ANN401
    """Options of an answer at noon, to a request that was understood a second before."""
    tokenizer = cast("Tokenizer", ByteTokenizer())
    fields: dict[str, Any] = {
        "id": "ollama-1",
        "model": "bytes",
        "shape": message_shape,
        "tokenizer": tokenizer,
        "parser": ScriptedParser,
        "clock": lambda: NOON,
        "started": NOON - 1,
    }
    return AnswerOptions(**(fields | changes))
