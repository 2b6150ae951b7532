"""The types of a request's fields, each with its bounds.

JSON types are exact: the string "5" is no integer, and neither is `true`.  The bounds are those of
`web.process.limits`; a test walks the schemas and finds any string, array, object or number that has none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from web.process.limits import (
    MAX_ALLOWED_IDS,
    MAX_ARGUMENT_VALUES,
    MAX_BAD_WORD_LENGTH,
    MAX_BAD_WORDS,
    MAX_BIASES,
    MAX_CHOICES,
    MAX_DIGITS,
    MAX_INTEGER,
    MAX_LOGPROBS,
    MAX_METADATA,
    MAX_METADATA_NAME,
    MAX_METADATA_VALUE,
    MAX_NAME,
    MAX_PRIORITY,
    MAX_PROMPT_IDS,
    MAX_PROMPTS,
    MAX_SCHEMA_TEXT,
    MAX_SCHEMA_VALUES,
    MAX_STOP_IDS,
    MAX_STOP_LENGTH,
    MAX_STOP_STRINGS,
    MAX_TEMPLATE_TEXT,
    MAX_TEMPLATE_VALUES,
    MAX_TEMPLATE_VARIABLES,
    MAX_TEXT,
    MAX_TOKEN_ID,
)

NO_LIMIT = -1
"""The value of `max_tokens` that asks for as many tokens as the context has room for, as in llama.cpp."""


Name = Annotated[str, Field(max_length=MAX_NAME)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]
BestOf = Annotated[int, Field(ge=0, le=MAX_CHOICES), AfterValidator(lambda best_of: best_of or None)]
MaxTokens = Annotated[int, Field(ge=NO_LIMIT, le=MAX_INTEGER)]
MinTokens = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Temperature = Annotated[float, Field(ge=0, le=2)]
TopP = Annotated[float, Field(gt=0, le=1)]
TopK = Annotated[int, Field(ge=-1, le=MAX_INTEGER)]
MinP = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
# No request needs more than these; far beyond them a logit would leave the range of float32.
RepetitionPenalty = Annotated[float, Field(ge=0.01, le=100)]
Bias = Annotated[float, Field(ge=-100, le=100)]
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_LOGPROBS)]
# -1 asks for a fresh seed, as in vLLM and llama-server.
Seed = Annotated[int, Field(ge=-(2**63), le=MAX_INTEGER), AfterValidator(lambda seed: None if seed == -1 else seed)]
# The lower, the earlier, as in vLLM; a tier is a name for some of the numbers (`web.generation.asked`).
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]


# --- objects ------------------------------------------------------------------------------------------------------


def _check_bias_count(value: object) -> object:
    """Check the number of biases before any of them is validated."""
    if isinstance(value, dict) and len(value) > MAX_BIASES:
        raise PydanticCustomError("too_many_biases", "")
    return value


LogitBias = Annotated[
    dict[Annotated[str, Field(max_length=MAX_DIGITS)], Bias],
    Field(max_length=MAX_BIASES),
    BeforeValidator(_check_bias_count),
]


Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=MAX_METADATA_NAME)],
        Annotated[str, Field(max_length=MAX_METADATA_VALUE)],
    ],
    Field(max_length=MAX_METADATA),
]


def _check_tree(tree: dict[str, Any], most_values: int, most_characters: int) -> dict[str, Any]:
    """Return `tree` if the values and characters in it, at all depths together, are within these bounds."""
    values, characters = 0, 0
    pending: list[object] = [tree]
    while pending:
        value = pending.pop()
        values += 1
        match value:
            case str():
                characters += len(value)
            case dict():
                characters += sum(map(len, value))
                pending += value.values()
            case list():
                pending += value
        if values + len(pending) > most_values or characters > most_characters:
            raise PydanticCustomError(
                "too_much_in_it", "", {"most_values": most_values, "most_characters": most_characters}
            )
    return tree


# Trees of any values.  `maxValues` tells whoever walks the schema how large they can be.
TemplateVariables = Annotated[
    dict[Name, Any],
    Field(max_length=MAX_TEMPLATE_VARIABLES, json_schema_extra={"maxValues": MAX_TEMPLATE_VALUES}),
    AfterValidator(lambda tree: _check_tree(tree, MAX_TEMPLATE_VALUES, MAX_TEMPLATE_TEXT)),
]
JsonSchema = Annotated[
    dict[Name, Any],
    Field(max_length=MAX_SCHEMA_VALUES, json_schema_extra={"maxValues": MAX_SCHEMA_VALUES}),
    AfterValidator(lambda tree: _check_tree(tree, MAX_SCHEMA_VALUES, MAX_SCHEMA_TEXT)),
]
# A call's arguments, which may hold the text of a whole file.
JsonObject = Annotated[
    dict[Name, Any],
    Field(max_length=MAX_ARGUMENT_VALUES, json_schema_extra={"maxValues": MAX_ARGUMENT_VALUES}),
    AfterValidator(lambda tree: _check_tree(tree, MAX_ARGUMENT_VALUES, MAX_TEXT)),
]


# --- unions -------------------------------------------------------------------------------------------------------

# The members of unions have tags, so that an error names the member that the client meant.  The tags are part of the
# path that pydantic reports, and `web.bodies.validation_errors` removes them.
TEXT, TEXTS, IDS, ID_LISTS, PARTS = "<text>", "<texts>", "<ids>", "<id lists>", "<parts>"


def list_or_text(value: object) -> str | None:
    """Return the tag of a field that is a string or a list of strings; None for other values."""
    return TEXT if isinstance(value, str) else TEXTS if isinstance(value, list) else None


def text_or_parts(value: object) -> str | None:
    """Return the tag of a field that is a string or a list of parts; None for other values."""
    return TEXT if isinstance(value, str) else PARTS if isinstance(value, list) else None


def type_tag(value: object) -> str | None:
    """Return the tag of an object by its `type`, such as `<function>`; None for other values."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)  # of a model, to be dumped
    return f"<{kind}>" if isinstance(kind, str) else None


def text_or_type(value: object) -> str | None:
    """Return the tag of a field that is a string or an object with a `type`; None for other values."""
    return TEXT if isinstance(value, str) else type_tag(value)


def _prompt_kind(value: object) -> str | None:
    """Return the tag of a prompt by its first element; the schema checks the rest."""
    if isinstance(value, str):
        return TEXT
    first = value[0] if isinstance(value, list) and value else None
    return {str: TEXTS, int: IDS, list: ID_LISTS}.get(type(first))


StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LENGTH)]
Stop = Annotated[
    Annotated[StopString, Tag(TEXT)]
    | Annotated[list[StopString], Field(max_length=MAX_STOP_STRINGS, fail_fast=True), Tag(TEXTS)],
    Discriminator(list_or_text, custom_error_type="stop", custom_error_message="stop"),
]
TokenId = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]
TokenIds = Annotated[list[TokenId], Field(max_length=MAX_PROMPT_IDS, fail_fast=True)]
StopIds = Annotated[list[TokenId], Field(max_length=MAX_STOP_IDS, fail_fast=True)]
BadWords = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_BAD_WORD_LENGTH)]],
    Field(max_length=MAX_BAD_WORDS, fail_fast=True),
]
# -1 keeps as many as the context has room for beside the answer.
KeptTokens = Annotated[int, Field(ge=-1, le=MAX_INTEGER)]
AllowedIds = Annotated[list[TokenId], Field(max_length=MAX_ALLOWED_IDS, fail_fast=True)]
Prompt = Annotated[
    Annotated[Text, Tag(TEXT)]
    | Annotated[list[Text], Field(max_length=MAX_PROMPTS, fail_fast=True), Tag(TEXTS)]
    | Annotated[TokenIds, Tag(IDS)]
    | Annotated[list[TokenIds], Field(max_length=MAX_PROMPTS, fail_fast=True), Tag(ID_LISTS)],
    Discriminator(_prompt_kind, custom_error_type="prompt", custom_error_message="prompt"),
]
