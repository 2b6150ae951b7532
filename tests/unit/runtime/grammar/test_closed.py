"""Objects that have the properties that their schema lists, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.grammar.closed import closed_objects
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level
from tests.rows import every_row

Schema = dict[str, Any]

A: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
NO = {"additionalProperties": False}
KINDS: Schema = {
    "A": {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
    "B": {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
}
EITHER: Schema = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}
X: Schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


def test_objects_are_closed_at_any_depth() -> None:
    assert closed_objects(A) == A | NO
    deep = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": A}, "x": {"anyOf": [A, {"$ref": "#/$defs/d"}]}},
    }
    closed = closed_objects(deep | {"$defs": {"d": A}})
    assert closed["additionalProperties"] is False
    assert closed["properties"]["list"]["items"] == A | NO
    assert closed["properties"]["x"]["anyOf"] == [A | NO, {"$ref": "#/$defs/d"}]
    assert closed["$defs"]["d"] == A | NO


@every_row(
    "schema",
    [
        {"type": "object"},
        {},
        A | {"additionalProperties": True},
        A | {"additionalProperties": {"type": "integer"}},
        A | {"patternProperties": {"^x": {}}},
        A | {"minProperties": 2},
        A | {"required": ["b"]},
        A | {"anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"required": ["a"]}]},
        {"allOf": [A, {"properties": {"b": {}}}]},
        {"properties": {"default": {"allOf": [A, {"properties": {"b": {}}}]}}},
        X | EITHER | {"$defs": KINDS},
        X | {"$ref": "#/$defs/B", "$defs": {"B": KINDS["B"]}},
        X | {"$ref": "#/$defs/C", "$defs": KINDS | {"C": EITHER}},
        EITHER | {"$ref": "#/$defs/X", "$defs": KINDS | {"X": X}},
        EITHER | {"required": ["x"], "$defs": KINDS},
        {"type": "object", "properties": {"properties": {"type": "object"}}, "additionalProperties": True},
        {"enum": [{"properties": {"a": 1}}], "default": {"properties": {"a": 1}}},
    ],
)
def test_what_speaks_of_other_properties_stays_as_it_is(schema: Schema) -> None:
    assert closed_objects(schema) == schema


def test_what_is_referred_to_is_closed_unless_it_is_a_part_of_an_object() -> None:
    apart = {"A": KINDS["A"] | NO, "B": KINDS["B"]}
    joined = {"type": "array", "items": X | {"$ref": "#/$defs/B"}, "prefixItems": [{"$ref": "#/$defs/A"}]}
    assert closed_objects(joined | {"$defs": KINDS}) == joined | {"$defs": apart}
    assert closed_objects(EITHER | {"$defs": KINDS})["$defs"] == {name: kind | NO for name, kind in KINDS.items()}


@pytest.mark.parametrize("parts", [EITHER, {"$ref": "#/$defs/B"}], ids=["anyOf", "$ref"])
def test_an_object_in_parts_still_has_outputs(parts: Schema) -> None:
    tokenizer = Tokenizer(byte_level())
    schema = json.dumps(closed_objects(X | parts | {"$defs": KINDS}))
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, (2,))
    matcher = compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, schema, "format")).matcher()
    tokens = tokenizer.encode('{"x": "1", "kind": "b"}', add_special_tokens=False)
    assert matcher.count_valid(tokens) == len(tokens)
