"""The request bodies of both generation endpoints, as strict pydantic models.

JSON types mean what they say here: the string "5" is no integer, and neither is `true`.  `null` stands for
"not given".  Fields outside these models are of three kinds: names that mean nothing to cede (logged and
ignored), hints that change nothing in the answer (`HINTS`, ignored), and features that cede does not have.  The
last are refused by name unless they hold their neutral value: no client shall believe that it got what it did
not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from runtime.errors import RequestError

BodyT = TypeVar("BodyT", bound="GenerationBody")

Count = Annotated[int, Field(ge=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Bias = Annotated[float, Field(ge=-100, le=100)]
# Nobody wants more of it, and beyond float32's range a logit would become infinite or undefined.
RepetitionPenalty = Annotated[float, Field(ge=0.01, le=100)]
# As for vLLM and llama-server, -1 asks for a fresh one.
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), AfterValidator(lambda seed: None if seed == -1 else seed)]
MOST_BIASES = 1024  # each is added again at every step, while the neighbours wait
StopString = Annotated[str, Field(min_length=1)]

# Union members carry a tag, so that an error speaks of the one that the client meant; `_dotted` drops them.
TEXT, TEXTS, IDS, ID_LISTS, PARTS = "<text>", "<texts>", "<ids>", "<id lists>", "<parts>"


def _list_or_text(value: object) -> str | None:
    return TEXT if isinstance(value, str) else TEXTS if isinstance(value, list) else None


def _text_or_parts(value: object) -> str | None:
    return TEXT if isinstance(value, str) else PARTS if isinstance(value, list) else None


def _prompt_kind(value: object) -> str | None:
    """A prompt's form, of four: the first element decides, that form's schema judges the rest."""
    if isinstance(value, str):
        return TEXT
    first = value[0] if isinstance(value, list) and value else None
    return {str: TEXTS, int: IDS, list: ID_LISTS}.get(type(first))


Stop = Annotated[
    Annotated[StopString, Tag(TEXT)] | Annotated[list[StopString], Field(max_length=16, fail_fast=True), Tag(TEXTS)],
    Discriminator(
        _list_or_text,
        custom_error_type="stop",
        custom_error_message="Input should be a string or an array of strings",
    ),
]
TokenIds = Annotated[list[int], Field(fail_fast=True)]
Prompt = Annotated[
    Annotated[str, Tag(TEXT)]
    | Annotated[list[str], Field(fail_fast=True), Tag(TEXTS)]
    | Annotated[TokenIds, Tag(IDS)]
    | Annotated[list[TokenIds], Field(fail_fast=True), Tag(ID_LISTS)],
    Discriminator(
        _prompt_kind,
        custom_error_type="prompt",
        custom_error_message="Input should be text, an array of token ids, or a non-empty array of either",
    ),
]


class Strict(BaseModel):
    """What all our models share: exact JSON types, no NaN, unknown fields kept aside in `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


class TextPart(Strict):
    """One part of a message's content; images and audio have other types, which cede's models cannot read."""

    type: Literal["text"]
    text: str


Content = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[TextPart], Field(fail_fast=True), Tag(PARTS)],
    Discriminator(
        _text_or_parts,
        custom_error_type="content",
        custom_error_message="Input should be a string or an array of text parts",
    ),
]


class Message(Strict):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content
    name: str | None = None
    tool_call_id: str | None = None


class StreamOptions(Strict):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None


class GenerationBody(Strict):
    """The parameters of both endpoints: OpenAI's names, then those from llama-server and vLLM, and ours."""

    model: str | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=16)] | None = None
    best_of: Count | None = None
    stop: Stop | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[str, Bias], Field(max_length=MOST_BIASES)] | None = None
    seed: Seed | None = None
    user: str | None = None

    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: RepetitionPenalty | None = Field(
        None, validation_alias=AliasChoices("repetition_penalty", "repeat_penalty")
    )
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    cache_prompt: bool | None = None
    speculate: bool | None = None


class ChatBody(GenerationBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class CompletionBody(GenerationBody):
    """`POST /v1/completions`."""

    prompt: Prompt
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
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
    "n_predict": (),
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
        raise _request_error(error) from None
    refuse_unsupported(body, UNSUPPORTED)
    return body


def refuse_unsupported(model: Strict, table: dict[str, tuple[object, ...]], path: str = "") -> None:
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


def _request_error(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False)[0]
    param, message = _dotted(first["loc"]), first["msg"]
    if first["type"] == "json_invalid":
        return RequestError(
            f"The body is not valid JSON: {message.removeprefix('Invalid JSON: ')}.", code="invalid_json"
        )
    if not param:
        return RequestError("The body must be a JSON object.")
    if first["type"] == "missing":
        return RequestError(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")
    wanted = message.replace("Input should", "it should").replace("List should", "it should")
    return RequestError(f"Invalid '{param}': {wanted}, but got {_shown(first['input'])}.", param=param)


def _dotted(location: tuple[str | int, ...]) -> str:
    """`messages.0.content.1.type`: pydantic's path without our union tags, which are in angle brackets."""
    return ".".join(str(step) for step in location if not str(step).startswith("<"))[:200]


def _shown(value: object) -> str:
    """A faulty value for a message: short scalars as they are, anything else by its JSON type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an empty array" if not value else "an array"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
