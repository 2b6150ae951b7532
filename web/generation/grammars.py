"""Grammars of answers, from the fields that say what an answer must be, in any API's words, to one `Grammar`.

It is compiled by the engine, which refuses what cannot be used before anything is allocated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from web.bodies.fields import TEXT, JsonSchema, Name, Text, type_tag
from web.bodies.strict_model import StrictModel, refuse_unsupported
from web.process.limits import MAX_GRAMMAR, MAX_GUIDED_CHOICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Source = Annotated[str, Field(max_length=MAX_GRAMMAR)]
GuidedChoices = Annotated[list[Source], Field(min_length=1, max_length=MAX_GUIDED_CHOICES, fail_fast=True)]


def _schema_or_text(value: object) -> str | None:
    return TEXT if isinstance(value, str) else "<schema>" if isinstance(value, dict) else None


SchemaOrText = Annotated[
    Annotated[JsonSchema, Tag("<schema>")] | Annotated[Source, Tag(TEXT)],
    Discriminator(_schema_or_text, custom_error_type="schema_or_text", custom_error_message="schema_or_text"),
]


class AnyText(StrictModel):
    """The answer may be any text."""

    type: Literal["text"]


class AnyObject(StrictModel):
    """The answer is a JSON object; of a `schema`, where llama-server's clients give one here."""

    type: Literal["json_object"]
    schema_: JsonSchema | None = Field(None, alias="schema")


class NamedSchema(StrictModel):
    """A schema with a name, which is for humans; it is held to whether it is `strict` or not."""

    name: Name | None = None
    description: Text | None = None
    schema_: JsonSchema | None = Field(None, alias="schema")
    strict: bool | None = None


class OfSchema(StrictModel):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[
    Annotated[AnyText, Tag("<text>")]
    | Annotated[AnyObject, Tag("<json_object>")]
    | Annotated[OfSchema, Tag("<json_schema>")],
    Discriminator(type_tag, custom_error_type="response_format", custom_error_message="response_format"),
]


class StructuredOutputs(StrictModel):
    """vLLM's `structured_outputs`: one of these."""

    json_: SchemaOrText | None = Field(None, alias="json")
    regex: Source | None = None
    choice: GuidedChoices | None = None
    grammar: Source | None = None
    json_object: bool | None = None


class GrammarFields(StrictModel):
    """Fields for the form of an answer; at most one of these."""

    response_format: ResponseFormat | None = None  # OpenAI's
    structured_outputs: StructuredOutputs | None = None  # vLLM's, as the four that follow, which it had before
    guided_json: SchemaOrText | None = None
    guided_regex: Source | None = None
    guided_choice: GuidedChoices | None = None
    guided_grammar: Source | None = None
    grammar: Source | None = None  # llama-server's, as the next
    json_schema: JsonSchema | None = None


# What else vLLM knows in `structured_outputs`, with the values that ask for nothing.
UNSUPPORTED_IN_STRUCTURED_OUTPUTS: dict[str, tuple[object, ...]] = {
    "structural_tag": (),
    "whitespace_pattern": (),
    "disable_any_whitespace": (False,),
    "disable_additional_properties": (False,),
}


ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def schema_grammar(schema: Mapping[str, Any] | str, param: str) -> Grammar:
    """Return the grammar of JSON texts of a schema, which may be JSON itself; `param` is its field in the body."""
    source = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
    return Grammar(GrammarKind.JSON_SCHEMA, source, param)


def choice_grammar(choices: Sequence[str], param: str) -> Grammar:
    """Return the grammar of a text that is one of these."""
    return Grammar(GrammarKind.CHOICE, json.dumps(choices, ensure_ascii=False), param)


def grammar_of(body: GrammarFields) -> Grammar | None:
    """Return what the answer to a body must be; None for any text.

    Raises:
        RequestError: it says so in two ways, or asks for what is not supported.
    """
    found = list(_grammars(body))
    if len(found) > 1:
        params = " and ".join(f"'{grammar.param}'" for grammar in found[:2])
        raise RequestError(f"{params} exclude each other: give one.", param=found[1].param)
    return found[0] if found else None


def _grammars(body: GrammarFields) -> Iterator[Grammar]:
    if body.response_format is not None:
        yield from _of_response_format(body.response_format)
    if body.structured_outputs is not None:
        yield from _of_structured_outputs(body.structured_outputs)
    if body.guided_json is not None:
        yield schema_grammar(body.guided_json, "guided_json")
    if body.guided_regex:
        yield Grammar(GrammarKind.REGEX, body.guided_regex, "guided_regex")
    if body.guided_choice is not None:
        yield choice_grammar(body.guided_choice, "guided_choice")
    if body.guided_grammar:
        yield Grammar(GrammarKind.GBNF, body.guided_grammar, "guided_grammar")
    if body.grammar:
        yield Grammar(GrammarKind.GBNF, body.grammar, "grammar")
    if body.json_schema is not None:
        yield schema_grammar(body.json_schema, "json_schema")


def _of_response_format(response_format: ResponseFormat) -> Iterator[Grammar]:
    match response_format:
        case AnyObject(schema_=dict(schema)):
            yield schema_grammar(schema, "response_format.schema")
        case AnyObject():
            yield schema_grammar(ANY_OBJECT, "response_format")
        case OfSchema(json_schema=named):
            yield schema_grammar(named.schema_ or {}, "response_format.json_schema.schema")


def _of_structured_outputs(asked: StructuredOutputs) -> Iterator[Grammar]:
    refuse_unsupported(asked, UNSUPPORTED_IN_STRUCTURED_OUTPUTS, "structured_outputs.")
    if asked.json_ is not None:
        yield schema_grammar(asked.json_, "structured_outputs.json")
    if asked.regex:
        yield Grammar(GrammarKind.REGEX, asked.regex, "structured_outputs.regex")
    if asked.choice is not None:
        yield choice_grammar(asked.choice, "structured_outputs.choice")
    if asked.grammar:
        yield Grammar(GrammarKind.GBNF, asked.grammar, "structured_outputs.grammar")
    if asked.json_object:
        yield schema_grammar(ANY_OBJECT, "structured_outputs.json_object")
