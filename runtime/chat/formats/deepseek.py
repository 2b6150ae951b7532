"""Calls as DeepSeek V3 and R1 write them: each with its name, behind markers of their own."""

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


def _marker(*words: str) -> str:
    bar, block = "\N{FULLWIDTH VERTICAL LINE}", "\N{LOWER ONE EIGHTH BLOCK}"
    return f"<{bar}{block.join(words)}{bar}>"


CALLS_BEGIN = _marker("tool", "calls", "begin")
CALLS_END = _marker("tool", "calls", "end")
CALL_BEGIN = _marker("tool", "call", "begin")
CALL_END = _marker("tool", "call", "end")
SEPARATOR = _marker("tool", "sep")
_CALLS = Markers(CALLS_BEGIN)
_FUNCTION = "function"
_FENCE = "```"


class DeepSeek:
    """Calls with their names before their arguments.

    Args:
        fenced: the arguments are a block of code, as V3 writes them, and not V3.1; both are read.
    """

    markers = (CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEPARATOR)

    def __init__(self, *, fenced: bool) -> None:
        self._fenced = fenced

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        yield from read_sections(source, _CALLS, CALL_BEGIN, CALLS_END, lambda: _read_call(source))

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        call = one_of([self._call(lark, tool) for tool in calls.tools])
        one = lark.rule("one", f"{lark.marker(CALL_BEGIN)} {call} {lark.marker(CALL_END)}")
        return section_answer(lark, CALLS_BEGIN, one, lark.marker(CALLS_END), calls)

    def _call(self, lark: Lark, tool: Tool) -> str:
        if not self._fenced:
            return f"{literal(tool.name)} {lark.marker(SEPARATOR)} {lark.arguments(tool)}"
        head, tail = literal(f"{tool.name}\n{_FENCE}json\n"), literal(f"\n{_FENCE}")
        return f"{literal(_FUNCTION)} {lark.marker(SEPARATOR)} {head} {lark.arguments(tool)} {tail}"


def _read_call(source: Source) -> Reading[bool]:
    """Read a call from behind its first marker on; return whether it began."""
    name = yield from source.take_until("<", LONGEST_NAME)
    if not name or not (yield from source.accept(SEPARATOR)):
        return False
    if name == _FUNCTION:
        following = yield from source.take_until("\n{", LONGEST_NAME)
        if following is None:
            return False
        name = following.strip()
        if (yield from source.skip_spaces()) == "`" and not (yield from source.accept(f"{_FENCE}json")):
            return False
    if not name or (yield from read_arguments(source, name)) is None:
        return False
    yield from source.close(_FENCE)
    yield from source.close(CALL_END)
    return True
