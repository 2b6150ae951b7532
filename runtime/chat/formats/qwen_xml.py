"""Calls as Qwen-Coder writes them, in tags: `<function=f><parameter=a>...</parameter></function>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import marked_answer, tagged_parameters
from runtime.chat.formats.hermes import CLOSING, OPENING
from runtime.chat.lark import literal, one_of
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.tagged_values import ArgumentTags, read_schema
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.tagged_values import Schema

FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"
SEED_OPENING = "<seed:tool_call>"
SEED_CLOSING = "</seed:tool_call>"
_CALL = Markers(OPENING, SEED_OPENING, FUNCTION)
_ARGUMENTS = ArgumentTags(PARAMETER, ">\n", ">", PARAMETER_END, FUNCTION_END, lines=True)


class QwenXml:
    """Calls as tags.  A value has no quotes, so the tool's schema says what it is.

    Args:
        seed: the model writes tags of its own around a call, and values without line breaks, as Seed-OSS; both are
            read.
    """

    def __init__(self, *, seed: bool = False) -> None:
        self._opening, self._closing = (SEED_OPENING, SEED_CLOSING) if seed else (OPENING, CLOSING)
        self._line = "" if seed else "\n"
        self.markers = (self._opening, self._closing)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        schemas = {tool.name: read_schema(tool) for tool in calls.tools}
        while (found := (yield from text_until(source, _CALL))) is not None:
            source.record()
            framed = found.marker != FUNCTION
            if framed:
                yield from source.skip_spaces()
            if (framed and not (yield from source.accept(FUNCTION))) or not (yield from _read_call(source, schemas)):
                yield from not_a_call(source, found)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, whose values fit the types of the schema; see `ToolFormat`."""
        tools = one_of([self._call(lark, tool) for tool in calls.tools])
        spaces = lark.spaces()
        return marked_answer(lark, self._opening, f"{spaces} {tools} {spaces} {lark.marker(self._closing)}", calls)

    def _call(self, lark: Lark, tool: Tool) -> str:
        def head(key: str) -> str:
            return lark.spaced_marker(PARAMETER, f"{key}>{self._line}")

        parameters = tagged_parameters(lark, tool, _ARGUMENTS, head, line=self._line)
        return f"{literal(f'{FUNCTION}{tool.name}>')} {parameters}"


def _read_call(source: Source, schemas: Mapping[str, Schema]) -> Reading[bool]:
    """Read a call from behind `<function=` on; return whether it began."""
    name = yield from source.take_until(">\n", LONGEST_NAME)
    if not name or not (yield from source.accept(">")):
        return False
    yield from _ARGUMENTS.read_call(source, name, schemas)
    yield from source.close(CLOSING, SEED_CLOSING)
    return True
