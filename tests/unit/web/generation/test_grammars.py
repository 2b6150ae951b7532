"""What an answer must be, in everybody's words, is one grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from tests.fakes.engine import chat, completion
from web.bodies.strict_model import parse_model
from web.generation.grammars import GrammarFields, grammar_of

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"größe": {"type": "integer"}}}


def asked(**fields: Any) -> Grammar | None:  # noqa: ANN401
    return grammar_of(parse_model(GrammarFields, json.dumps(fields).encode()))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
                }
            },
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, "response_format.schema"),
        ({"guided_json": SCHEMA}, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, "guided_json"),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, "structured_outputs.json"),
        ({"json_schema": SCHEMA}, "json_schema"),
    ],
)
def test_a_schema_comes_by_many_names(fields: dict[str, Any], param: str) -> None:
    grammar = asked(**fields)
    assert grammar is not None
    assert (grammar.kind, grammar.param) == (GrammarKind.JSON_SCHEMA, param)
    assert json.loads(grammar.source) == SCHEMA


@pytest.mark.parametrize(
    ("fields", "kind", "source"),
    [
        ({"response_format": {"type": "json_object"}}, GrammarKind.JSON_SCHEMA, '{"type": "object"}'),
        ({"structured_outputs": {"json_object": True}}, GrammarKind.JSON_SCHEMA, '{"type": "object"}'),
        ({"json_schema": {}}, GrammarKind.JSON_SCHEMA, "{}"),
        ({"guided_regex": "a+"}, GrammarKind.REGEX, "a+"),
        ({"structured_outputs": {"regex": "a+"}}, GrammarKind.REGEX, "a+"),
        ({"guided_choice": ["ja", "nö"]}, GrammarKind.CHOICE, '["ja", "nö"]'),
        ({"structured_outputs": {"choice": ["ja", "nö"]}}, GrammarKind.CHOICE, '["ja", "nö"]'),
        ({"guided_grammar": "root ::= x"}, GrammarKind.GBNF, "root ::= x"),
        ({"structured_outputs": {"grammar": "root ::= x"}}, GrammarKind.GBNF, "root ::= x"),
        ({"grammar": "root ::= x"}, GrammarKind.GBNF, "root ::= x"),
    ],
)
def test_so_do_other_grammars(fields: dict[str, Any], kind: GrammarKind, source: str) -> None:
    assert asked(**fields) == Grammar(kind, source)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": None, "grammar": None, "structured_outputs": None},
        {"response_format": {"type": "text"}, "grammar": "", "guided_regex": "", "structured_outputs": {}},
        {"structured_outputs": {"json_object": False, "disable_any_whitespace": False}},
    ],
)
def test_any_text_will_do_where_nothing_else_is_said(fields: dict[str, Any]) -> None:
    assert asked(**fields) is None


def test_two_of_them_are_refused_by_name() -> None:
    with pytest.raises(RequestError, match="'response_format' and 'grammar' exclude each other") as raised:
        asked(response_format={"type": "json_object"}, grammar="root ::= x")
    assert raised.value.param == "grammar"


def test_both_endpoints_hand_it_to_the_engine() -> None:
    wanted = Grammar(GrammarKind.REGEX, "a+")
    assert chat(guided_regex="a+").request.grammar == wanted
    assert completion(guided_regex="a+").request.grammar == wanted
    assert chat().request.grammar is None
    assert completion().request.grammar is None
