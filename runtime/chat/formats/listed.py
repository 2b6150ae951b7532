"""Calls as a JSON list behind a marker, as Phi-4-mini and Granite write them: `<|tool_call|>[{"name": "f", ...}]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import call_text, json_call, listed_answer
from runtime.chat.lark import one_of
from runtime.chat.reading.json_calls import read_calls
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

OPENING = "<|tool_call|>"
CLOSING = "<|/tool_call|>"
_OPENINGS = Markers(OPENING, "functools[")


class Listed:
    """Calls as one JSON list."""

    markers = (OPENING, CLOSING)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer, which may have the word `functools` for a marker (Phi-4-mini); see `ToolFormat`."""
        while (found := (yield from text_until(source, _OPENINGS))) is not None:
            source.record()
            if (yield from read_calls(source, opened=found.marker != OPENING)):
                yield from source.close(CLOSING)
            else:
                yield from not_a_call(source, found)

    @staticmethod
    def write(calls: Sequence[tuple[str, str]]) -> str:
        """Return earlier calls, names and arguments, as the model wrote them."""
        return f"{OPENING}[{', '.join(call_text(name, arguments) for name, arguments in calls)}]{CLOSING}"

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        call = one_of([json_call(lark, tool) for tool in calls.tools])
        return listed_answer(lark, OPENING, CLOSING, call, calls)
