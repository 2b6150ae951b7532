"""Calls as Gemma 4 writes them, `<|tool_call>call:f{a:<|"|>text<|"|>,b:7}<tool_call|>`.

FunctionGemma writes the same with other markers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.chat.formats.format import marked_answer
from runtime.chat.lark import arguments_schema, literal, one_of
from runtime.chat.parts import CallEnd, CallStart
from runtime.chat.reading.bare_objects import KEY_ENDS, BareObject
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.json_strings import INPUT
from runtime.chat.reading.tagged_values import list_in, types_of
from runtime.chat.reading.text import Markers, not_a_call, text_until

if TYPE_CHECKING:
    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.tagged_values import Schema

_CALL = "call:"
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SCALARS = ("integer", "number", "boolean", "null")


@dataclass(frozen=True, slots=True)
class Spelling:
    """Spelling of a model's markers: before a call, behind it, and on both sides of a text."""

    opening: str
    closing: str
    quote: str


GEMMA_4 = Spelling("<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA = Spelling("<start_function_call>", "<end_function_call>", "<escape>")


class Gemma:
    """Calls as objects whose keys are bare, and whose texts stand between markers as they are."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._openings = Markers(spelling.opening)
        self.markers = (spelling.opening, spelling.closing, spelling.quote)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`."""
        while (found := (yield from text_until(source, self._openings))) is not None:
            source.record()
            yield from source.skip_spaces()
            if not (yield from source.accept(_CALL)) or not (yield from self._read_call(source)):
                yield from not_a_call(source, found)

    def _read_call(self, source: Source) -> Reading[bool]:
        """Read a call from its name on; return whether it began."""
        name = ((yield from source.take_until("{<\n", LONGEST_NAME)) or "").strip()
        if not name or (yield from source.skip_spaces()) != "{":
            return False
        source.recorded()
        number = source.next_call()
        yield CallStart(number, name)
        if (yield from BareObject(source, number, self._spelling.quote).read()):
            yield CallEnd(number)
        yield from source.close(self._spelling.closing)
        return True

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer, whose values fit the types of the schema; see `ToolFormat`."""
        tools = one_of([self._call(lark, tool) for tool in calls.tools])
        call = f"{tools} {lark.marker(self._spelling.closing)}"
        return marked_answer(lark, self._spelling.opening, call, calls)

    def _call(self, lark: Lark, tool: Tool) -> str:
        head, quote = literal(f"{_CALL}{tool.name}"), lark.marker(self._spelling.quote)
        if tool.custom and tool.grammar is not None:
            return f'{head} "{{" {literal(f"{INPUT}:")} {quote} {lark.embedded(tool.grammar)} {quote} "}}"'
        schema = {"properties": {INPUT: {"type": "string"}}, "required": [INPUT]} if tool.custom else None
        grammar = ValueGrammar(lark, self._spelling.quote, schema or arguments_schema(tool))
        return f"{head} {grammar.arguments()}"


class ValueGrammar:
    """Expressions for the values of one tool's arguments, whose keys stand in the order of the alphabet.

    Types, constants, bounds of numbers, objects and arrays are held; what else a schema says is left out.

    Args:
        lark: the grammar.
        quote: the marker on both sides of a text.
        schema: of the arguments.
    """

    def __init__(self, lark: Lark, quote: str, schema: Schema) -> None:
        self._lark = lark
        self._quote = quote
        self._schema = schema
        self._referred: dict[str, str] = {}  # the rules of the schema's parts, by the references to them

    def arguments(self) -> str:
        """Return an expression for the arguments."""
        return self._object(self._schema)

    def _value(self, schema: object) -> str:
        if not isinstance(schema, dict):
            return self._any()
        if isinstance(reference := schema.get("$ref"), str):
            return self._refer(reference)
        values = list_in(schema, "enum") or ([schema["const"]] if "const" in schema else [])
        if values:
            return one_of([self._constant(value) for value in values])
        if choices := [*list_in(schema, "anyOf"), *list_in(schema, "oneOf")]:
            return one_of([self._value(choice) for choice in choices])
        types = types_of(schema, self._schema)
        kinds = [self._text()] if "string" in types else []
        if scalars := [kind for kind in _SCALARS if kind in types]:
            bounds = {word: schema[word] for word in _BOUNDS if word in schema}
            kinds.append(f"%json {json.dumps({**bounds, 'type': scalars})}")
        if "object" in types:
            kinds.append(self._object(schema))
        if "array" in types:
            kinds.append(self._array(self._value(schema.get("items"))))
        return one_of(kinds) if kinds else self._any()

    def _object(self, schema: Schema) -> str:
        properties, required = schema.get("properties"), list_in(schema, "required")
        if not isinstance(properties, dict) or not properties:
            return '"{}"' if schema.get("additionalProperties") is False else self._any_object()
        keys = sorted(properties, key=str.lower)
        pairs = [f"{self._key(key)} {self._value(properties[key])}" for key in keys]
        needed = [key in required for key in keys]
        # Each rule is the pairs from one on, each behind a comma.
        rest = ""
        firsts: list[str] = []  # what the object can begin with
        for pair, need in zip(reversed(pairs), reversed(needed), strict=True):
            name = self._lark.new_rule(pair)
            firsts = [f"{name} {rest}", *([] if need else firsts)]
            following = f'("," {name}){"" if need else "?"} {rest}'
            rest = self._lark.new_rule(following)
        return f'"{{" ({" | ".join(firsts)}){"" if any(needed) else "?"} "}}"'

    def _array(self, item: str) -> str:
        name = self._lark.new_rule(item)
        return f'"[" ({name} ("," {name})*)? "]"'

    def _key(self, key: str) -> str:
        bare = key and key == key.strip() and not set(key) & set(KEY_ENDS)
        return literal(f"{key}:") if bare else f'{self._constant(key)} ":"'

    def _text(self) -> str:
        return self._lark.rule("quoted", f"{self._lark.marker(self._quote)} {self._lark.until(self._quote)}")

    def _constant(self, value: object) -> str:
        """Return an expression for one value."""
        if isinstance(value, str):
            quote = self._lark.marker(self._quote)
            return f"{quote} {literal(value)} {quote}" if value else f"{quote} {quote}"
        if isinstance(value, list):
            items = ' "," '.join(map(self._constant, value))
            return f'"[" {items} "]"'
        if isinstance(value, dict):
            pairs = (f"{self._key(key)} {self._constant(value[key])}" for key in sorted(value, key=str.lower))
            return f'"{{" {" ", " ".join(pairs)} "}}"'
        return literal(json.dumps(value))

    def _refer(self, reference: str) -> str:
        """Return the rule of a part of the schema that others refer to, itself perhaps."""
        if reference not in self._referred:
            part = _part(self._schema, reference)
            name = self._referred[reference] = self._lark.new_rule("")
            self._lark.rule(name, self._any() if part is None else self._value(part))
        return self._referred[reference]

    def _any(self) -> str:
        scalar = f"%json {json.dumps({'type': list(_SCALARS)})}"
        self._lark.rule("any_array", '"[" (any_value ("," any_value)*)? "]"')
        return self._lark.rule("any_value", f"{self._text()} | {scalar} | {self._any_object()} | any_array")

    def _any_object(self) -> str:
        if not self._lark.has_rule("any_object"):
            self._lark.rule("any_object", '"{" (any_pair ("," any_pair)*)? "}"')
            self._lark.rule("any_pair", rf"/[A-Za-z0-9_.-]{{1,64}}:/ {self._any()}")
        return "any_object"


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _part(schema: Schema, reference: str) -> object:
    """Return the part of a schema that a reference within it names; None where there is none."""
    if not reference.startswith("#"):
        return None
    part: object = schema
    for step in filter(None, reference[1:].split("/")):
        part = _dict(part).get(step.replace("~1", "/").replace("~0", "~"))
    return part
