"""Calls as Mistral writes them: `[TOOL_CALLS][{"name": "f", "arguments": {}}]`, or each as `[TOOL_CALLS]f[ARGS]{}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import json_call, listed_answer, marked_answer
from runtime.chat.lark import literal, one_of
from runtime.chat.reading.json_calls import LONGEST_NAME, read_arguments, read_calls
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

CALLS = "[TOOL_CALLS]"
CALL_ID = "[CALL_ID]"
ARGUMENTS = "[ARGS]"
_CALLS = Markers(CALLS)


class Mistral:
    """Calls as a JSON list, or each with its name before its arguments.

    Args:
        named: the model writes the second form; both are read.
    """

    markers = (CALLS, CALL_ID, ARGUMENTS)

    def __init__(self, *, named: bool) -> None:
        self._named = named

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        while (found := (yield from text_until(source, _CALLS))) is not None:
            source.record()
            listed = (yield from source.skip_spaces()) == "["
            if not (yield from read_calls(source) if listed else _read_named(source)):
                yield from not_a_call(source, found)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        if not self._named:
            return listed_answer(lark, CALLS, "", one_of([json_call(lark, tool) for tool in calls.tools]), calls)
        call_id = f"({lark.marker(CALL_ID)} /[A-Za-z0-9]{{9}}/)?"
        named = [
            f"{literal(tool.name)} {call_id} {lark.marker(ARGUMENTS)} {lark.arguments(tool)}" for tool in calls.tools
        ]
        return marked_answer(lark, CALLS, one_of(named), calls)


def _read_named(source: Source) -> Reading[bool]:
    """Read a name, perhaps an id, and the arguments; return whether the call began."""
    name = yield from source.take_until("[{ \n", LONGEST_NAME)
    if not name:
        return False
    call_id = None
    if (yield from source.accept(CALL_ID)):
        call_id = yield from source.take_until("[{ \n", LONGEST_NAME)
    yield from source.accept(ARGUMENTS)
    return (yield from read_arguments(source, name, call_id or None)) is not None
