"""Objects that have the properties that their schema lists, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.grammar.closed import closed_objects

Schema = dict[str, Any]

A: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
NO = {"additionalProperties": False}


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


@pytest.mark.parametrize(
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
        {"type": "object", "properties": {"properties": {"type": "object"}}, "additionalProperties": True},
        {"enum": [{"properties": {"a": 1}}], "default": {"properties": {"a": 1}}},
    ],
    ids=str,
)
def test_what_speaks_of_other_properties_stays_as_it_is(schema: Schema) -> None:
    assert closed_objects(schema) == schema
