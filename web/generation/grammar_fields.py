"""The fields of a body that say what an answer must be, in the words of OpenAI, of vLLM and of llama-server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from web.bodies.fields import TEXT, JsonSchema, Name, Text, type_tag
from web.bodies.strict_model import StrictModel
from web.process.limits import MAX_GRAMMAR, MAX_GUIDED_CHOICES

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
