"""Calls as MiniMax M2 writes them, in tags: `<invoke name="f"><parameter name="a">...</parameter></invoke>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import section_answer, tagged_parameters
from runtime.chat.lark import literal, one_of
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.tagged_values import ArgumentTags, read_schema
from runtime.chat.reading.text import Markers, read_sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.tagged_values import Schema

OPENING = "<minimax:tool_call>"
CLOSING = "</minimax:tool_call>"
INVOKE = '<invoke name="'
INVOKE_END = "</invoke>"
PARAMETER = '<parameter name="'
PARAMETER_END = "</parameter>"
_NAME_END = '">'
_CALLS = Markers(OPENING)
_ARGUMENTS = ArgumentTags(PARAMETER, '"\n', _NAME_END, PARAMETER_END, INVOKE_END)


class MiniMax:
    """Calls as tags, all of them between two markers.  A value has no quotes: the schema says what it is."""

    markers = (OPENING, CLOSING)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        schemas = {tool.name: read_schema(tool) for tool in calls.tools}
        yield from read_sections(source, _CALLS, INVOKE, CLOSING, lambda: _read_call(source, schemas))

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, whose values fit the types of the schema; see `ToolFormat`."""
        one = lark.rule("one", one_of([_call(lark, tool) for tool in calls.tools]))
        return section_answer(lark, OPENING, one, lark.marker(CLOSING), calls)


def _call(lark: Lark, tool: Tool) -> str:
    def head(key: str) -> str:
        return lark.spaced_marker(PARAMETER, f"{key}{_NAME_END}")

    return f"{literal(f'{INVOKE}{tool.name}{_NAME_END}')} {tagged_parameters(lark, tool, _ARGUMENTS, head)}"


def _read_call(source: Source, schemas: Mapping[str, Schema]) -> Reading[bool]:
    """Read a call from behind `<invoke name="` on; return whether it began."""
    name = yield from source.take_until('"\n', LONGEST_NAME)
    if not name or not (yield from source.accept(_NAME_END)):
        return False
    yield from _ARGUMENTS.read_call(source, name, schemas)
    return True
