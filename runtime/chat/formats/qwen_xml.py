"""Calls as Qwen-Coder writes them, in tags: `<function=f><parameter=a>...</parameter></function>`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from runtime.chat.formats.format import marked_answer
from runtime.chat.formats.hermes import CLOSING, OPENING
from runtime.chat.lark import arguments_schema, literal, one_of
from runtime.chat.parts import CallArguments, CallEnd, CallStart
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.text import Markers, not_a_call, raw_until, text_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"
_CALL = Markers(OPENING, FUNCTION)
_VALUE_END = Markers(PARAMETER_END)
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_SURROGATES = re.compile("[\ud800-\udfff]")

Schema = dict[str, Any]


class QwenXml:
    """Calls as tags.  A value has no quotes, so the tool's schema says what it is."""

    markers = (OPENING, CLOSING)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        schemas = {tool.name: arguments_schema(tool) for tool in calls.tools}
        while (found := (yield from text_until(source, _CALL))) is not None:
            source.record()
            if found.marker == OPENING:
                yield from source.skip_spaces()
            if (found.marker == OPENING and not (yield from source.accept(FUNCTION))) or not (
                yield from _read_call(source, schemas)
            ):
                yield from not_a_call(source, found)

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, whose values fit the types of the schema; see `ToolFormat`."""
        tools = one_of([_call(lark, tool) for tool in calls.tools])
        spaces = lark.spaces()
        return marked_answer(lark, OPENING, f"{spaces} {tools} {spaces} {lark.marker(CLOSING)}", calls)


def _read_call(source: Source, schemas: Mapping[str, Schema]) -> Reading[bool]:
    """Read a call from behind `<function=` on; return whether it began."""
    name = yield from source.take_until(">\n", LONGEST_NAME)
    if not name or not (yield from source.accept(">")):
        return False
    source.recorded()
    number = source.next_call()
    yield CallStart(number, name)
    yield CallArguments(number, "{")
    properties = schemas.get(name, {}).get("properties")
    first = True
    while True:
        yield from source.skip_spaces()
        tag = yield from source.accept(PARAMETER, FUNCTION_END)
        if tag != PARAMETER:
            break
        key = yield from source.take_until(">\n", LONGEST_NAME)
        if key is None or not (yield from source.accept(">")):
            return True
        yield CallArguments(number, ("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ")
        first = False
        if not (yield from _read_value(source, number, _types(properties, key))):
            return True
    if tag:
        yield CallArguments(number, "}")
        yield CallEnd(number)
        yield from source.skip_spaces()
        yield from source.accept(CLOSING)
    return True


def _read_value(source: Source, number: int, types: frozenset[str]) -> Reading[bool]:
    """Read a value up to its end tag, as JSON; strings as they come.  Return whether it is whole."""
    yield from source.accept("\n")
    text = types <= {"string"}
    if text:
        yield CallArguments(number, '"')
    held: list[str] = []
    last = ""  # a newline at the end belongs to the tag
    while True:
        piece = yield from raw_until(source, _VALUE_END)
        said, ended = last + piece.text, piece.marker
        last = "\n" if said.endswith("\n") else ""
        said = said[: len(said) - len(last)]
        if text and said:
            yield CallArguments(number, json.dumps(_SURROGATES.sub("?", said), ensure_ascii=False)[1:-1])
        elif not text:
            held.append(said)
        if ended or piece.last:
            break
    if not ended:
        return False
    yield CallArguments(number, '"' if text else _typed("".join(held), types))
    return True


def _types(properties: object, key: str) -> frozenset[str]:
    """Return the JSON types that a parameter may have; none where its schema does not say."""
    schema = properties.get(key) if isinstance(properties, dict) else None
    return frozenset(_types_of(schema))


def _types_of(schema: object) -> list[str]:
    if not isinstance(schema, dict):
        return []
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else _list(declared)
    values = _list(schema.get("enum")) or ([schema["const"]] if "const" in schema else [])
    if not types:
        types = [_TYPES.get(type(value), "null") for value in values]
    choices = [choice for word in ("anyOf", "oneOf") for choice in _list(schema.get(word))]
    return [*(word for word in types if isinstance(word, str)), *(word for one in choices for word in _types_of(one))]


def _list(value: object) -> list[Any]:
    """Return a list that stands in a schema; an empty one where it is something else, for clients write schemas."""
    return value if isinstance(value, list) else []


def _typed(said: str, types: frozenset[str]) -> str:
    """Return the JSON of a value that is to have one of these types; a string where it has none of them."""
    word = said.strip()
    if "boolean" in types and word.lower() in ("true", "false"):
        return word.lower()
    if "null" in types and word.lower() in ("null", "none"):
        return "null"
    try:
        value = json.loads(word)
    except (ValueError, RecursionError):
        return json.dumps(said, ensure_ascii=False)
    kind = _TYPES.get(type(value), "null")
    fits = kind in types or (kind in ("integer", "number") and types & {"integer", "number"})
    return word if fits else json.dumps(said, ensure_ascii=False)


# --- the grammar ------------------------------------------------------------------------------------------------------


def _call(lark: Lark, tool: Tool) -> str:
    schema = arguments_schema(tool)
    required, properties = _list(schema.get("required")), schema.get("properties")
    if not isinstance(properties, dict):
        properties = {}
    parameters = [
        f"({_parameter(lark, schema, key, part)}){'' if key in required else '?'}" for key, part in properties.items()
    ]
    return f"{literal(f'{FUNCTION}{tool.name}>')} {' '.join(parameters)} {lark.spaces()} {literal(FUNCTION_END)}"


def _parameter(lark: Lark, schema: Schema, key: str, part: object) -> str:
    head = f"{lark.spaces()} {literal(f'{PARAMETER}{key}>')}"
    end = f"\n{PARAMETER_END}"
    if not isinstance(part, dict) or frozenset(_types_of(part)) <= {"string"}:
        words = part.get("enum") if isinstance(part, dict) else None
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return f'{head} "\\n" {one_of([literal(word) for word in words])} {literal(end)}'
        return f"{head} {literal(chr(10))} {lark.until(PARAMETER_END)}"
    shared = {name: schema[name] for name in ("$defs", "definitions", "x-guidance") if name in schema}
    return f'{head} "\\n" %json {json.dumps({**shared, **part})} {literal(end)}'
