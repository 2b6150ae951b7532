"""Schemas that the library would pass over in silence, by name or otherwise; each case was an invalid output once."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from runtime.errors import RequestError
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.schemas import MOST, prepare_schema
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level
from tests.rows import every_row

Schema = dict[str, Any]

DATE, MOMENT, TIME = ({"type": "string", "format": name} for name in ("date", "date-time", "time"))


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokenizer = Tokenizer(byte_level())
    return GrammarCompiler(tokenizer, tokenizer.vocab_size, (2,))


def accepts(compiler: GrammarCompiler, schema: Schema, text: str) -> bool:
    matcher = compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema), "x")).matcher()
    tokens = Tokenizer(byte_level()).encode(text, add_special_tokens=False)
    if matcher.count_valid(tokens) < len(tokens):
        return False
    return matcher.is_complete_after(tokens) or matcher.mask_after(tokens)[0] & 1 << 2 != 0


def named(name: str, schema: Schema) -> Schema:
    """An object that has to have a property."""
    return {"type": "object", "properties": {name: schema}, "required": [name]}


def is_valid(schema: Schema, text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"type": "integer"}}}, r'{"\u0061": "no integer"}'),
        ({"properties": {"é": {"type": "integer"}}}, r'{"\u00e9": "no integer"}'),
        ({"properties": {"a\n": {"type": "integer"}}}, r'{"a\u000a": "no integer"}'),
        ({"patternProperties": {"^🐲*$": {"type": "integer"}}}, r'{"\ud83d\udc32": "no integer"}'),
        ({"type": "integer", "maximum": 2**63 - 1}, str(2**63)),
        ({"type": "integer", "minimum": 2**53 + 1}, str(2**53)),
        ({"type": "integer", "exclusiveMaximum": -(2**53) - 1}, str(-(2**53) - 1)),
    ],
    ids=str,
)
def test_what_is_invalid_is_not_accepted(compiler: GrammarCompiler, schema: Schema, text: str) -> None:
    assert not is_valid(schema, text)
    assert not accepts(compiler, schema, text)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (DATE, ["2024-02-29", "2000-02-29", "2021-12-31"], ["2021-02-29", "1900-02-29", "0000-01-01", "2021-04-31"]),
        (TIME, ["23:59:59Z", "00:00:00.5+14:00"], ["23:59:60Z", "24:00:00Z", "10:00:00"]),
        (MOMENT, ["2024-02-29T00:00:00Z"], ["2023-02-29T00:00:00Z", "2024-02-29T00:00:60Z", "2024-02-29"]),
        (MOMENT | {"pattern": "^20"}, ["2024-02-29T00:00:00Z"], ["1999-01-01T00:00:00Z", "20"]),
    ],
    ids=str,
)
def test_a_date_or_a_time_is_one_that_there_is(
    compiler: GrammarCompiler, schema: Schema, good: list[str], bad: list[str]
) -> None:
    assert [accepts(compiler, schema, json.dumps(text)) for text in good] == [True] * len(good)
    assert [accepts(compiler, schema, json.dumps(text)) for text in bad] == [False] * len(bad)


NAME: Schema = {"type": "string"}
LIST: Schema = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["next"],
}
NODE: Schema = {
    "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["next"]}},
    "$ref": "#/$defs/n",
}
REFUSED: dict[str, tuple[Schema, str]] = {
    "names that may repeat": ({"minProperties": 2}, "minProperties"),
    "more than are required": ({"properties": {"a": {"required": ["b"], "minProperties": 3}}}, "minProperties"),
    "a number of enum": ({"enum": [[{"a": 2**53 + 1}]]}, "enum"),
    "a number of const": ({"anyOf": [{"const": 1e30}]}, "const"),
    "a control character": ({"const": "\x01"}, "const"),
    "a control character as a name": ({"properties": {"\x01": {}}}, "properties"),
    "a bound that nothing reaches": ({"minimum": 1e30}, "minimum"),
    "a draft": ({"$schema": "http://json-schema.org/draft-03/schema#", "disallow": "string"}, r"\$schema"),
    "a draft below": ({"properties": {"a": {"$schema": "urn:mine"}}}, r"\$schema"),
    "any format": ({"format": "unknown"}, "format"),
    "options": ({"x-guidance": {"item_separator": ";"}}, "item_separator"),
    "leniency": ({"x-guidance": {"lenient": True}, "not": {}}, "lenient"),
    "behind any word": ({"components": {"schemas": {"a": {"minProperties": 2}}}}, "minProperties"),
    "in a list": ({"items": [{"minProperties": 2}]}, "minProperties"),
    "elsewhere": ({"$ref": "http://example.org/"}, r"\$ref"),
    "nowhere": ({"$ref": "#/nowhere"}, r"\$ref"),
    "a circle": ({"allOf": [{"$ref": "#"}], "type": "object"}, r"\$ref"),
    "itself": ({"$ref": "#"}, r"\$ref' leads in a circle"),
    "a required circle": (NODE, r"\$ref' leads in a circle .*#/\$defs/n"),
    "an optional one that never ends": ({"properties": {"a": {"$ref": "#/$defs/n"}}, **NODE}, "leads in a circle"),
    "a list of itself": ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "leads in a circle"),
    "a circle behind a name": (named("default", {"$ref": "#"}), "leads in a circle"),
    "a circle of examples": ({"$ref": "#/default", "default": {"$ref": "#/default"}}, "leads in a circle"),
    "a pattern": ({"pattern": "(?=a)"}, "pattern"),
    "two patterns": ({"patternProperties": {"a": {}, "b": {"type": "null"}}}, "patternProperties"),
}


@every_row("case", REFUSED)
def test_what_an_output_cannot_be_held_to_is_refused_by_its_keyword(compiler: GrammarCompiler, case: str) -> None:
    schema, keyword = REFUSED[case]
    with pytest.raises(RequestError, match=keyword) as raised:
        compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema), "response_format"))
    assert raised.value.param == "response_format"


@every_row(
    "schema, text",
    [
        ({"required": ["a"], "minProperties": 2, "properties": {"a": {}}}, '{"a": 1, "b": 2}'),
        ({"minProperties": 1}, '{"a": 1}'),
        (LIST, '{"next": {"next": null}}'),
        ({"enum": [2**53]}, str(2**53)),
        ({"const": '\n"\\'}, r'"\n\"\\"'),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**64 - 1}, str(MOST)),
        ({"properties": {"format": {"type": "string"}, "minProperties": {"type": "integer"}}}, '{"minProperties": 3}'),
        (named("default", NAME), '{"default": "a"}'),
        (
            named("enum", {"$ref": "#/$defs/const"}) | {"$defs": {"const": named("const", NAME)}},
            '{"enum": {"const": "a"}}',
        ),
        ({"$ref": "#/examples/0", "examples": [{"type": "integer"}]}, "3"),
        ({"enum": [{"minProperties": 7, "$schema": "mine"}]}, '{"minProperties": 7, "$schema": "mine"}'),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "1"),
        ({"minimum": 3, "exclusiveMinimum": True}, "4"),
        ({"x-guidance": {"coerce_one_of": True}, "oneOf": [{}, {"type": "null"}]}, "null"),
    ],
)
def test_what_an_output_can_be_held_to_is_not_refused(compiler: GrammarCompiler, schema: Schema, text: str) -> None:
    assert accepts(compiler, schema, text)


def test_a_lenient_schema_leaves_out_what_cannot_be_held_to(compiler: GrammarCompiler) -> None:
    schema = {"minProperties": 2, "not": {}, "format": "unknown", "x-guidance": {"item_separator": ";"}}
    prepared = prepare_schema(schema, "tools", lenient=True)
    assert prepared["x-guidance"]["lenient"]
    assert "item_separator" not in prepared["x-guidance"]


KINDS = {name: {"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]} for name in "ab"}
TAGGED: Schema = {
    "$defs": {**KINDS, "c": {"$ref": "#/$defs/tagged"}},
    "properties": {"x": {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b", "title": "B"}]}},
    "required": ["x"],
    "type": "object",
}


def test_a_tagged_union_of_references_is_held_to(compiler: GrammarCompiler) -> None:
    assert accepts(compiler, TAGGED, '{"x": {"kind": "b"}}')
    assert not accepts(compiler, TAGGED, '{"x": {"kind": "c"}}')


def test_references_below_another_base_stay_what_they_are(compiler: GrammarCompiler) -> None:
    inner = {"$id": "http://example.org/inner", "$defs": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    inner |= {"oneOf": TAGGED["properties"]["x"]["oneOf"]}
    with pytest.raises(RequestError, match="oneOf"):
        accepts(compiler, {"$defs": KINDS, "properties": {"x": inner}}, "{}")


def test_what_is_put_in_the_place_of_references_is_bounded() -> None:
    """And what a recursive one refers to is put in once."""
    large = {"enum": [f"value {i}" for i in range(1000)]}
    many = {"$defs": {"large": large}, "oneOf": [{"$ref": "#/$defs/large"}] * 1000}
    assert len(json.dumps(prepare_schema(many, None))) < 400_000
    itself = {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}
    circle = {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/a"}], "$defs": {"a": itself}}
    assert prepare_schema(circle, None)["oneOf"][1] == itself
