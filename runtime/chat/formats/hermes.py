"""Calls as Hermes and Qwen write them: `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import call_text, json_call, marked_answer
from runtime.chat.lark import one_of
from runtime.chat.reading.json_calls import read_call
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

OPENING = "<tool_call>"
CLOSING = "</tool_call>"
_OPENING = Markers(OPENING)


class Hermes:
    """Calls as JSON objects, each between markers."""

    markers = (OPENING, CLOSING)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        while (found := (yield from text_until(source, _OPENING))) is not None:
            source.record()
            if (yield from read_call(source)):
                yield from source.close(CLOSING)
            else:
                yield from not_a_call(source, found)

    @staticmethod
    def write(calls: Sequence[tuple[str, str]]) -> str:
        """Return earlier calls, names and arguments, as the model wrote them."""
        written = (f"{OPENING}\n{call_text(name, arguments)}\n{CLOSING}" for name, arguments in calls)
        return "\n".join(written)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        objects = one_of([json_call(lark, tool) for tool in calls.tools])
        spaces = lark.spaces()
        return marked_answer(lark, OPENING, f"{spaces} {objects} {spaces} {lark.marker(CLOSING)}", calls)
