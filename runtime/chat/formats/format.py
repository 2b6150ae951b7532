"""What a format of tool calls is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.chat.lark import json_key, literal

if TYPE_CHECKING:
    from runtime.chat.conversation import Tool
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that an answer may, or has to, make.

    Attributes:
        tools: that may be called.
        required: at least one call has to be made.
        parallel: several may be made.
        bound: how they are written is to be held to a grammar.
    """

    tools: tuple[Tool, ...]
    required: bool = False
    parallel: bool = True
    bound: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools that may be called."""
        return frozenset(tool.name for tool in self.tools)


class ToolFormat(Protocol):
    """How a family writes calls."""

    @property
    def markers(self) -> tuple[str, ...]:
        """What stands in its answers; those of them that are special tokens have to be in the text."""

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer to its end, behind what was thought."""

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, behind what was thought."""


def marked_answer(lark: Lark, opening: str, call: str, calls: Calls) -> str:
    """Return an expression for answers in which a marker stands before each call, or before a list of them.

    Args:
        lark: the grammar.
        opening: the marker.
        call: an expression for what follows the marker.
        calls: what may be called.
    """
    name = lark.rule("call", call)
    spaces = lark.spaces()
    if calls.required:
        again = f"({spaces} {lark.marker(opening)} {name})*" if calls.parallel else ""
        return f"{spaces} {lark.marker(opening)} {name} {again} {spaces}"
    upto, free = lark.until(opening), lark.without(opening)
    return f"({upto} {name})* {free}" if calls.parallel else f"({upto} {name} {spaces} | {free})"


def listed_answer(lark: Lark, opening: str, closing: str, call: str, calls: Calls) -> str:
    """Return an expression for answers in which a marker stands before a JSON list of calls.

    Args:
        lark: the grammar.
        opening: the marker.
        closing: the marker behind the list; empty where there is none.
        call: an expression for a call.
        calls: what may be called.
    """
    spaces = lark.spaces()
    name = lark.rule("call", call)
    more = f'({spaces} "," {spaces} {name})*' if calls.parallel else ""
    end = f"({spaces} {lark.marker(closing)})?" if closing else ""
    listed = lark.rule("calls", f'{spaces} "[" {spaces} {name} {more} {spaces} "]" {end} {spaces}')
    if calls.required:
        return f"{spaces} {lark.marker(opening)} {listed}"
    return f"({lark.until(opening)} {listed} | {lark.without(opening)})"


def call_text(name: str, arguments: str) -> str:
    """Return a call as a JSON object."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'


def json_call(lark: Lark, tool: Tool, arguments: str = "arguments") -> str:
    """Return an expression for a call as a JSON object; `arguments` is its key for them."""
    name = literal(json.dumps(tool.name, ensure_ascii=False))
    head = f'"{{" {json_key("name")} {name} "," {json_key(arguments)}'
    return f'{head} {lark.arguments(tool)} {lark.spaces()} "}}"'
