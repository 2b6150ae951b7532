"""Interface of a format of tool calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from runtime.chat.lark import arguments_schema, json_key, literal, one_of
from runtime.chat.reading.json_strings import INPUT
from runtime.chat.reading.tagged_values import LONGEST_CHAIN, list_in, types_of
from runtime.grammar.endless import pointed_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.chat.conversation import Tool
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.tagged_values import ArgumentTags, Schema


MOST_REQUIRED = 8
"""Calls in an answer that has to call."""

_ROOT = "arguments-of-the-call"  # the name of the whole schema in that of one value


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

    def more(self, call: str) -> str:
        """Return an expression for further calls, of which each is `call`, behind the first.

        Where a call has to be made, nothing but the grammar might end a weak model's answer: it goes on calling.
        """
        if not self.parallel:
            return ""
        return f"({call}){{0,{MOST_REQUIRED - 1}}}" if self.required else f"({call})*"

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools that may be called."""
        return frozenset(tool.name for tool in self.tools)


class ToolFormat(Protocol):
    """Format in which a family writes calls."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Markers in its answers, first what begins a call; special tokens among them have to be in the text."""

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
        again = f"{lark.spaced_marker(opening)} {name}"
        return f"{again} {calls.more(again)} {spaces}"
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
    more = calls.more(f'{spaces} "," {spaces} {name}')
    end = f"({spaces} {lark.marker(closing)})?" if closing else ""
    listed = lark.rule("calls", f'{spaces} "[" {spaces} {name} {more} {spaces} "]" {end} {spaces}')
    if calls.required:
        return f"{lark.spaced_marker(opening)} {listed}"
    return f"({lark.until(opening)} {listed} | {lark.without(opening)})"


def section_answer(lark: Lark, opening: str, call: str, closing: str, calls: Calls) -> str:
    """Return an expression for answers in which all calls stand in one frame.

    Args:
        lark: the grammar.
        opening: the marker before them.
        call: an expression for one of them.
        closing: an expression for the marker behind them.
        calls: what may be called.
    """
    spaces = lark.spaces()
    all_calls = f"{spaces} {call} {calls.more(f'{spaces} {call}')} {spaces} {closing}"
    return marked_answer(lark, opening, all_calls, replace(calls, parallel=False))


def tagged_parameters(lark: Lark, tool: Tool, tags: ArgumentTags, head: Callable[[str], str], *, line: str = "") -> str:
    """Return an expression for a tool's arguments as values without quotes, in the order of its schema, and their end.

    Args:
        lark: the grammar.
        tool: that is called.
        tags: around them.
        head: returns an expression for what stands before the value of a key, whitespace included.
        line: a line break, where one belongs to the tag behind a value.
    """
    end = tags.value_end
    behind = f"{literal(line)} {lark.marker(end)}" if line else lark.marker(end)
    text, call_end = lark.value(end, tags.head, tags.call_end), lark.spaced_marker(tags.call_end)
    if tool.custom:
        free = text if tool.grammar is None else f"{lark.embedded(tool.grammar)} {behind}"
        return f"{head(INPUT)} {free} {call_end}"
    schema = arguments_schema(tool)
    properties, required = schema.get("properties"), list_in(schema, "required")
    parameters = []
    for key, part in (properties if isinstance(properties, dict) else {}).items():
        value = _tagged_value(lark, schema, part)
        ended = text if value is None else f"{value} {behind}"
        parameters.append(f"({head(key)} {ended}){'' if key in required else '?'}")
    return " ".join([*parameters, call_end])


def _tagged_value(lark: Lark, schema: Schema, part: object) -> str | None:
    """Return an expression for a value of a schema's part; None for any text."""
    if not isinstance(part, dict) or types_of(part, schema) <= {"string"}:
        words = _listed(part, schema)
        return one_of(list(map(literal, words))) if words and all(isinstance(word, str) for word in words) else None
    shared = {name: schema[name] for name in ("$defs", "definitions", "x-guidance") if name in schema}
    alone = {**shared, **part}
    moved: Schema = _moved(alone)
    if moved != alone:
        rest = {name: inner for name, inner in schema.items() if name not in shared}
        moved["$defs"] = {**moved.get("$defs", {}), _ROOT: _moved(rest)}
    return f"%json {json.dumps(moved)}"


def _listed(part: object, root: Schema) -> list[Any]:
    """Return the values that a schema, or what it refers to, lists; an empty list where it lists none."""
    for _ in range(LONGEST_CHAIN):
        if not isinstance(part, dict):
            break
        if values := list_in(part, "enum"):
            return values
        together = list_in(part, "allOf")
        part = together[0] if len(together) == 1 else pointed_at(root, part.get("$ref"))
    return []


def _moved(value: Any) -> Any:  # noqa: ANN401  of JSON
    """Return a part of a schema in which references to the root, but for its definitions, lead to `_ROOT`."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _moved(inner) for name, inner in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        if not reference.startswith(("#/$defs/", "#/definitions/")):
            moved["$ref"] = f"#/$defs/{_ROOT}{reference[1:]}"
    return moved


def call_text(name: str, arguments: str) -> str:
    """Return a call as a JSON object."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'


def json_call(lark: Lark, tool: Tool, arguments: str = "arguments") -> str:
    """Return an expression for a call as a JSON object; `arguments` is its key for them."""
    name = literal(json.dumps(tool.name, ensure_ascii=False))
    head = f'"{{" {json_key("name")} {name} "," {json_key(arguments)}'
    return f'{head} {lark.arguments(tool)} {lark.spaces()} "}}"'
