"""Calls as Kimi K2 writes them: each with an id that has its name in it, between markers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import section_answer
from runtime.chat.lark import literal, one_of
from runtime.chat.reading.json_calls import LONGEST_NAME, read_arguments
from runtime.chat.reading.text import Markers, read_sections

if TYPE_CHECKING:
    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

CALLS_BEGIN = "<|tool_calls_section_begin|>"
CALLS_END = "<|tool_calls_section_end|>"
CALL_BEGIN = "<|tool_call_begin|>"
CALL_END = "<|tool_call_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"
_CALLS = Markers(CALLS_BEGIN)
_NAMESPACE = "functions."


class Kimi:
    """Calls with ids such as `functions.f:0`, whose number goes on through the conversation."""

    markers = (CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, ARGUMENTS)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        yield from read_sections(source, _CALLS, CALL_BEGIN, CALLS_END, lambda: _read_call(source))

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        call = one_of([_call(lark, tool) for tool in calls.tools])
        one = lark.rule("one", f"{lark.marker(CALL_BEGIN)} {call} {lark.marker(CALL_END)}")
        return section_answer(lark, CALLS_BEGIN, one, lark.marker(CALLS_END), calls)


def _call(lark: Lark, tool: Tool) -> str:
    return f"{literal(f'{_NAMESPACE}{tool.name}:')} /[0-9]{{1,4}}/ {lark.marker(ARGUMENTS)} {lark.arguments(tool)}"


def _read_call(source: Source) -> Reading[bool]:
    """Read a call from behind its first marker on; return whether it began."""
    call_id = ((yield from source.take_until("<", LONGEST_NAME)) or "").strip()
    name, _, _ = call_id.removeprefix(_NAMESPACE).rpartition(":")
    name = name or call_id  # some write the name alone
    if not name or not (yield from source.accept(ARGUMENTS)):
        return False
    if (yield from read_arguments(source, name, call_id if call_id != name else None)) is None:
        return False
    yield from source.close(CALL_END)
    return True
