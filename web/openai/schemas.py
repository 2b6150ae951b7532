"""The request bodies of both generation endpoints, as strict pydantic models.

What a field may hold is in `web.bodies.fields`; `null` stands for "not given".  Fields outside these models are of
three kinds: names that mean nothing to cede (logged and ignored), hints that change nothing in the answer (`HINTS`,
ignored), and features that cede does not have.  The last are refused by name unless they hold their neutral value: no
client shall believe that it got what it did not.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from runtime.errors import RequestError
from web.bodies.fields import (
    PARTS,
    TEXT,
    Choices,
    LogitBias,
    MaxTokens,
    MinP,
    MinTokens,
    Name,
    Penalty,
    Prompt,
    RepetitionPenalty,
    Seed,
    Stop,
    Temperature,
    TemplateVariables,
    Text,
    TopK,
    TopLogprobs,
    TopP,
    text_or_parts,
)
from web.bodies.validation_errors import request_error
from web.limits import MAX_MESSAGES, MAX_NAME, MAX_PARTS, MAX_UNKNOWN_FIELDS

BodyT = TypeVar("BodyT", bound="GenerationBody")


class StrictModel(BaseModel):
    """What all our models share: exact JSON types, no NaN, unknown fields kept aside in `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_unknown_fields(self) -> Self:
        unknown = self.model_extra or {}
        if len(unknown) > MAX_UNKNOWN_FIELDS:
            raise PydanticCustomError("unknown_fields", "")
        if any(len(name) > MAX_NAME for name in unknown):
            raise PydanticCustomError("unknown_name", "")
        return self


class TextPart(StrictModel):
    """One part of a message's content; images and audio have other types, which cede's models cannot read."""

    type: Literal["text"]
    text: Text


Content = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[TextPart], Field(max_length=MAX_PARTS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="content", custom_error_message="content"),
]


class Message(StrictModel):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content
    name: Name | None = None
    tool_call_id: Name | None = None


class StreamOptions(StrictModel):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None


class GenerationBody(StrictModel):
    """The parameters of both endpoints: OpenAI's names, then those from llama-server and vLLM, and ours."""

    model: Name | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    n: Choices | None = None
    best_of: Choices | None = None
    stop: Stop | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    seed: Seed | None = None
    user: Name | None = None

    n_predict: MaxTokens | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: RepetitionPenalty | None = Field(
        None, validation_alias=AliasChoices("repetition_penalty", "repeat_penalty")
    )
    min_tokens: MinTokens | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    cache_prompt: bool | None = None
    speculate: bool | None = None


class ChatBody(GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    chat_template_kwargs: TemplateVariables | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class CompletionBody(GenerationBody):
    """`POST /v1/completions`."""

    prompt: Prompt
    logprobs: TopLogprobs | None = None
    echo: bool | None = None


HINTS = frozenset(
    "metadata prediction prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier "
    "parallel_tool_calls".split()
)

# What cede does not do, each with the values (beside null) that ask for nothing.
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "moderation": (),
    "reasoning_effort": ("none", "medium"),
    "verbosity": ("medium",),
    "store": (False,),
    "suffix": ("",),
    "echo": (False,),
    "grammar": ("",),
    "json_schema": ({},),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "prompt_logprobs": (),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "include_stop_str_in_output": (False,),
    "allowed_token_ids": ([],),
    "truncate_prompt_tokens": (),
    "typical_p": (1,),
    "mirostat": (0,),
    "dynatemp_range": (0,),
    "xtc_probability": (0,),
    "dry_multiplier": (0,),
}
UNSUPPORTED_IN_MESSAGES: dict[str, tuple[object, ...]] = {
    "tool_calls": ([],),
    "function_call": (),
    "audio": (),
}


def parse(schema: type[BodyT], raw: bytes) -> BodyT:
    """The validated body in the JSON text `raw`.  Raises RequestError: the first fault in one sentence."""
    try:
        body = schema.model_validate_json(raw)
    except ValidationError as error:
        raise request_error(error) from None
    refuse_unsupported(body, UNSUPPORTED)
    return body


def refuse_unsupported(model: StrictModel, table: dict[str, tuple[object, ...]], path: str = "") -> None:
    """Raises RequestError where `model` was given a field that asks for something cede does not do."""
    for name, value in (model.model_extra or {}).items():
        if name in table and value is not None and value not in table[name]:
            raise RequestError(
                f"'{path}{name}' is not supported by this server.",
                param=path + name,
                code="unsupported_parameter",
            )


def unknown_fields(body: GenerationBody) -> list[str]:
    """The names that were given and mean nothing to cede."""
    return sorted((body.model_extra or {}).keys() - HINTS - UNSUPPORTED.keys())
