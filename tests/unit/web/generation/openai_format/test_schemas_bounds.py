"""Every field of the schemas is bounded, and everything that they refuse is told in cede's own words."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import web.apis.ollama.schemas
from runtime.errors import RequestError
from tests.fakes.engine import chat, completion
from tests.unit.web.bounds import Json, unbounded
from web.apis.anthropic.prompts.schemas import CountBody, MessagesBody
from web.apis.openai.completions import CompletionBody
from web.bodies import fields, strict_model, validation_errors
from web.bodies.strict_model import StrictModel
from web.generation.asked import Asked
from web.generation.openai_format import schemas
from web.generation.openai_format.answers.options import ResponseOptions
from web.generation.openai_format.chat import schema as chat_schema
from web.generation.openai_format.chat.schema import ChatBody
from web.process import limits

ENDPOINTS = (ChatBody, CompletionBody, MessagesBody, CountBody)
OLLAMA = (web.apis.ollama.schemas.ChatBody, web.apis.ollama.schemas.GenerateBody)


# --- the walk -----------------------------------------------------------------------------------------------------


def models_in(schema: Json) -> set[str]:
    return {schema["title"], *schema.get("$defs", {})}


@pytest.mark.parametrize("body", ENDPOINTS)
def test_no_field_is_without_a_bound(body: type[BaseModel]) -> None:
    assert unbounded(body.model_json_schema()) == []


@pytest.mark.parametrize("body", ENDPOINTS)
def test_every_object_bounds_the_fields_that_it_does_not_know(body: type[BaseModel]) -> None:
    """The schema cannot say so: `StrictModel` does it."""
    assert models_in(body.model_json_schema()) <= {model.__name__ for model in _descendants(StrictModel)}


def _descendants(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _descendants(child)


BOUNDED_NAME = Annotated[str, Field(max_length=3)]
WITHOUT_A_BOUND: list[tuple[Any, str]] = [
    (str, "(string)"),
    (str | None, "(string)"),
    (int, "(integer)"),
    (Annotated[int, Field(ge=0)], "no maximum"),
    (Annotated[int, Field(le=0)], "no minimum"),
    (Annotated[float, Field(gt=0)], "no maximum"),
    (list[BOUNDED_NAME], "(array)"),
    (Annotated[list[str], Field(max_length=2)], "[] (string)"),
    (dict[BOUNDED_NAME, bool], "(object)"),
    (Annotated[dict[str, bool], Field(max_length=2)], "keys"),
    (Annotated[dict[BOUNDED_NAME, str], Field(max_length=2)], "{} (string)"),
    (Any, "anything"),
    (Annotated[dict[BOUNDED_NAME, Any], Field(max_length=2)], "{} may be anything"),
]


@pytest.mark.parametrize(("kind", "said"), WITHOUT_A_BOUND, ids=lambda shown: str(shown)[:40])
def test_the_walk_finds_what_has_no_bound(kind: Any, said: str) -> None:  # noqa: ANN401
    class Inner(BaseModel):
        careless: kind

    class Outer(BaseModel):
        model_config = ConfigDict(extra="allow")
        fine: Annotated[int, Field(ge=0, le=9)] | None = None
        inner: Annotated[list[Inner], Field(max_length=3)]

    found = unbounded(Outer.model_json_schema())
    assert all(path.startswith("$.inner[]:Inner.careless") for path in found)
    assert any(said in path for path in found)


# --- what the schema does not say ---------------------------------------------------------------------------------


MESSAGE = {"role": "user", "content": "hi"}
PART = {"type": "text", "text": "hi"}
PLACES: list[tuple[str | None, Callable[[Json], Asked[ResponseOptions]]]] = [
    (None, lambda more: completion(**more)),
    (None, lambda more: chat(**more)),
    ("stream_options", lambda more: chat(stream=True, stream_options=more)),
    ("messages.0", lambda more: chat(messages=[MESSAGE | more])),
    ("messages.0.content.1", lambda more: chat(messages=[MESSAGE | {"content": [PART, PART | more]}])),
]


@pytest.mark.parametrize(("param", "ask"), PLACES)
def test_fields_that_nobody_knows_are_bounded_wherever_they_are(
    param: str | None, ask: Callable[[Json], Asked[ResponseOptions]]
) -> None:
    few: Json = {f"x{number}": 0 for number in range(limits.MAX_UNKNOWN_FIELDS)}
    ask(few)
    for many in (few | {"y": 0}, {"x" * (limits.MAX_NAME + 1): 0}):
        with pytest.raises(RequestError, match=r"at most 64 fields|more than 256 characters") as caught:
            ask(many)
        assert caught.value.param == param


# --- our own words ------------------------------------------------------------------------------------------------

# What each kind of node in a core schema can raise, in strict mode and from JSON; None: nothing of its own.
RAISED: dict[str, set[str]] = {
    "any": set(),
    "bool": {"bool_type"},
    "int": {"int_type"},
    "float": {"float_type", "finite_number"},
    "str": {"string_type"},
    "list": {"list_type"},
    "dict": {"dict_type"},
    "literal": {"literal_error"},
    "model": {"model_type"},
    "model-fields": {"model_type", "missing"},
    "model-field": set(),
    "default": set(),
    "nullable": set(),
    "definitions": set(),
    "definition-ref": set(),
    "tagged-union": set(),  # it names its own, below
    "function-after": set(),  # these are looked for in the sources
    "function-before": set(),
}
CONSTRAINTS = {
    ("str", "max_length"): "string_too_long",
    ("str", "min_length"): "string_too_short",
    ("str", "pattern"): "string_pattern_mismatch",
    ("list", "max_length"): "too_long",
    ("list", "min_length"): "too_short",
    ("dict", "max_length"): "too_long",
    ("int", "ge"): "greater_than_equal",
    ("int", "le"): "less_than_equal",
    ("float", "ge"): "greater_than_equal",
    ("float", "le"): "less_than_equal",
    ("float", "gt"): "greater_than",
}
HARMLESS = {"type", "strict", "fail_fast", "allow_inf_nan", "metadata", "serialization", "ref"}
LEAVES = ("bool", "int", "float", "str", "list", "dict")


def raised_by(node: object) -> Iterator[str]:
    """The types of all errors that a core schema can raise.  An unknown kind of node or constraint fails."""
    if isinstance(node, list | tuple):
        for child in node:
            yield from raised_by(child)
        return
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if isinstance(kind, str):
        yield from RAISED[kind]
        yield from {node["custom_error_type"]} if "custom_error_type" in node else ()
        if kind in LEAVES:
            for name in node.keys() - HARMLESS - {"items_schema", "keys_schema", "values_schema"}:
                yield CONSTRAINTS[kind, name]
    for name, child in node.items():
        if name not in ("metadata", "serialization", "config", "expected", "function"):
            yield from raised_by(child)


@pytest.mark.parametrize("body", ENDPOINTS)
def test_every_error_that_the_schemas_can_raise_has_a_sentence_of_ours(body: type[BaseModel]) -> None:
    possible = set(raised_by(body.__pydantic_core_schema__))
    assert {"int_type", "string_too_long", "too_long", "missing"} <= possible  # it has seen something
    assert possible <= {*validation_errors.WANTED, *validation_errors.WANTED_SIZES, "missing"}


def test_our_own_validators_raise_nothing_else() -> None:
    sources = [inspect.getsource(module) for module in (fields, strict_model, schemas, chat_schema)]
    ours = {name for source in sources for name in re.findall(r'PydanticCustomError\("(\w+)"', source)}
    assert len(ours) >= 4
    assert ours <= {*validation_errors.WANTED, *validation_errors.WANTED_SIZES}


def test_no_sentence_is_left_that_nothing_raises() -> None:
    possible = {kind for body in (*ENDPOINTS, *OLLAMA) for kind in raised_by(body.__pydantic_core_schema__)}
    ours = {"conversation", "media", "too_many_biases", "too_much_in_it", "two_names", "unknown_fields", "unknown_name"}
    assert {*validation_errors.WANTED, *validation_errors.WANTED_SIZES} == (possible | ours) - {"missing"}


KINDS: list[tuple[Any, Any]] = [
    (fields.Name, "x" * 300),
    (fields.StopString, ""),
    (fields.TokenIds, [1, "a"]),
    (fields.LogitBias, {str(number): 1 for number in range(1100)}),
    (fields.LogitBias, {"9" * 400: 1}),
    (fields.Seed, 10**400),
    (fields.TopP, 0),
    (fields.TopP, "much"),
    (fields.MaxTokens, -2),
    (fields.TemplateVariables, {"a": [0] * 2000}),
]


@pytest.mark.parametrize(("kind", "value"), KINDS, ids=lambda shown: repr(shown)[:40])
def test_a_sentence_is_short_and_holds_none_of_pydantics_words(kind: Any, value: Any) -> None:  # noqa: ANN401
    adapter = TypeAdapter[Any](dict[str, kind], config=ConfigDict(strict=True, allow_inf_nan=False))
    with pytest.raises(ValidationError) as caught:
        adapter.validate_json(json.dumps({"field": value}))
    said = str(validation_errors.request_error(caught.value))
    assert re.fullmatch(r"Invalid 'field[\w.]*': it (should|must) .*\.", said)
    assert not re.search(r"Input|a valid|String|List|Dictionary|\{|another form", said)
    assert len(said) < 200


NO_JSON = {
    b"": "ends too early",
    b'{"a": ' + b"[" * 300: "nested too deeply",
    b'{"a": "\\ud800"}': "surrogate",
    b'{"a": "\xff"}': "UTF-8",
    b'{"a": "\x01"}': "control character",
    b'{"a": ' + b"1" * 5000 + b"}": "number in it is too large",
    b'{"a": 1,}': "line 1, column 9).",
    b"{\n'a'": "line 2, column 1).",
}


@pytest.mark.parametrize("raw", NO_JSON, ids=lambda raw: repr(raw[:16]))
def test_what_is_no_json_is_told_in_our_words_too(raw: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        CompletionBody.model_validate_json(raw)
    said = str(validation_errors.request_error(caught.value))
    assert said.startswith("The body is not valid JSON (line ")
    assert NO_JSON[raw] in said
