"""Calls as Llama 3 writes them: answers that are `{"name": "f", "parameters": {}}`, also behind `<|python_tag|>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.formats.format import json_call
from runtime.chat.lark import one_of
from runtime.chat.reading.json_calls import read_call
from runtime.chat.reading.text import Found, Markers, drop_spaces, not_a_call, text_until

if TYPE_CHECKING:
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

TAG = "<|python_tag|>"
_TAG = Markers(TAG)


class Llama:
    """Calls as JSON objects with nothing around them, several of them separated by semicolons.

    Without the tag, only an object at the beginning of the answer that names one of the tools is a call: a model may
    have been asked for JSON.
    """

    markers = (TAG,)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        if (yield from source.skip_spaces(source.spaces)) == "{":
            yield from _read_objects(source, Found("", drop_spaces(source)), calls)
        while (found := (yield from text_until(source, _TAG))) is not None:
            yield from _read_objects(source, found, calls)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        spaces = lark.spaces()
        call = lark.rule("call", one_of([json_call(lark, tool, "parameters") for tool in calls.tools]))
        more = calls.more(f'{spaces} ";" {spaces} {call}')
        objects = lark.rule("calls", f"{spaces} {call} {more} {spaces}")
        bare = f"({lark.spaced_marker(TAG)})? {objects}"
        if calls.required:
            return bare
        lark.never_first("{")
        return f"({bare} | {lark.until(TAG)} {objects} | {lark.without(TAG)})"


def _read_objects(source: Source, found: Found, calls: Calls) -> Reading[None]:
    names = None if found.marker else calls.names
    while True:
        source.record()
        if not (yield from read_call(source, names)):
            yield from not_a_call(source, found)
            return
        if (yield from source.skip_spaces()) != ";":
            return
        source.take(source.at + 1)
        found, names = Found(";", ""), calls.names
