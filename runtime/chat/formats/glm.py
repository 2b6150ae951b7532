"""Calls as GLM 4.5 to 5 write them: `<tool_call>f<arg_key>a</arg_key><arg_value>...</arg_value></tool_call>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import marked_answer, tagged_parameters
from runtime.chat.formats.hermes import CLOSING, OPENING
from runtime.chat.lark import literal, one_of
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.source import WHITESPACE
from runtime.chat.reading.tagged_values import ArgumentTags, read_schema
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.tagged_values import Schema

KEY = "<arg_key>"
KEY_END = "</arg_key>"
VALUE = "<arg_value>"
VALUE_END = "</arg_value>"
_CALL = Markers(OPENING)
_ARGUMENTS = ArgumentTags(KEY, "<", KEY_END, VALUE_END, CLOSING, value=VALUE)


class Glm:
    """Calls whose name and arguments are told apart by tags.  A value has no quotes: the schema says what it is.

    Args:
        lines: the model writes each of them on a line of its own, as 4.5 and 4.6 do and 4.7 does not; both are read.
    """

    markers = (OPENING, CLOSING, KEY, KEY_END, VALUE, VALUE_END)

    def __init__(self, *, lines: bool) -> None:
        self._line = "\n" if lines else ""

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        schemas = {tool.name: read_schema(tool) for tool in calls.tools}
        while (found := (yield from text_until(source, _CALL))) is not None:
            source.record()
            if not (yield from _read_call(source, schemas)):
                yield from not_a_call(source, found)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, whose values fit the types of the schema; see `ToolFormat`."""
        tools = one_of([self._call(lark, tool) for tool in calls.tools])
        return marked_answer(lark, OPENING, tools, calls)

    def _call(self, lark: Lark, tool: Tool) -> str:
        def head(key: str) -> str:
            return f"{lark.spaced_marker(KEY, key)} {lark.marker(KEY_END)} {lark.spaces()} {lark.marker(VALUE)}"

        line = literal(self._line) if self._line else ""
        return f"{literal(tool.name)} {line} {tagged_parameters(lark, tool, _ARGUMENTS, head)}"


def _read_call(source: Source, schemas: Mapping[str, Schema]) -> Reading[bool]:
    """Read a call from behind `<tool_call>` on; return whether it began."""
    yield from source.skip_spaces()
    name = yield from source.take_until(f"<{{{WHITESPACE}", LONGEST_NAME)
    tag = (yield from _ARGUMENTS.next_tag(source)) if name else ""
    if not name or not tag:
        return False
    yield from _ARGUMENTS.read_call(source, name, schemas, tag)
    return True
