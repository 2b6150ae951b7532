"""The request bodies of Ollama's API, as strict pydantic models; null stands for "not given".

Fields outside these models are, as in OpenAI's API: names that mean nothing to cede (logged and ignored), hints
(`HINTS`), and features that cede does not have (`UNSUPPORTED`), which are refused unless they hold a neutral value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, Tag

from runtime.errors import RequestError
from web.bodies.fields import (
    TEXT,
    TEXTS,
    JsonObject,
    JsonSchema,
    Name,
    Penalty,
    Priority,
    RepetitionPenalty,
    Seed,
    Stop,
    Text,
    TokenIds,
    TopK,
    TopLogprobs,
    list_or_text,
)
from web.bodies.strict_model import StrictModel, known_fields, parse_model, refuse_unsupported, unknown_fields
from web.generation.control.fields import ControlFields
from web.generation.passed_over import OLLAMA, names_in
from web.generation.sampling import SamplingFields
from web.process.limits import MAX_CALLS, MAX_INPUTS, MAX_INTEGER, MAX_MESSAGES, MAX_TOOLS

if TYPE_CHECKING:
    from runtime.sampling.params import SamplingParams

FILL_CONTEXT = -2
"""The least `num_predict`.  Like 0 and -1 it asks for as many tokens as the context has room for."""

WHOLE_CONTEXT = -1
"""The `repeat_last_n` that lets all tokens count for the penalties, as they do here; 0 lets none."""


def _whole(value: object) -> object:
    """Return a number without a fraction as an integer: Ollama takes `40.0`, as languages without integers write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)


class Options(SamplingFields):
    """The options of Ollama's that cede knows."""

    num_predict: Annotated[int, Field(ge=FILL_CONTEXT, le=MAX_INTEGER), Whole] | None = None
    top_k: Annotated[TopK, Whole] | None = None
    seed: Annotated[Seed, Whole] | None = None
    stop: Stop | None = None
    repeat_penalty: RepetitionPenalty | None = None
    repeat_last_n: Annotated[int, Field(ge=WHOLE_CONTEXT, le=MAX_INTEGER), Whole] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None


# How a model is loaded, which is the server's to say.
IGNORED_OPTIONS = names_in(OLLAMA, "options.") | {"mirostat_tau", "mirostat_eta"}

UNSUPPORTED_OPTIONS: dict[str, tuple[object, ...]] = {
    "typical_p": (1,),
    "tfs_z": (1,),
    "mirostat": (0,),
    "penalize_newline": (True,),
}


def plain_fields(options: Options) -> dict[str, Any]:
    """Return the options in the words of other APIs, as `web.generation.asked.generation_request` reads them."""
    fields = known_fields(options) | {"repetition_penalty": options.repeat_penalty}
    if options.repeat_last_n == 0:
        fields |= {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    return fields


def check_penalties(options: Options, sampling: SamplingParams) -> None:
    """Raise RequestError if `repeat_last_n` asks that a penalty forgets tokens."""
    if sampling.penalises and options.repeat_last_n not in (None, WHOLE_CONTEXT):
        raise RequestError(
            "'options.repeat_last_n' is not supported by this server: penalties count all tokens (-1), or none (0).",
            param="options.repeat_last_n",
            code="unsupported_parameter",
        )


def max_tokens(options: Options, default: int | None) -> int | None:
    """Return the limit on an answer's tokens, `default` where none is given; None for all that there is room."""
    if options.num_predict is None:
        return default
    return options.num_predict if options.num_predict > 0 else None


BodyT = TypeVar("BodyT", bound="ModelOptions")

SWITCH = "<switch>"
"""The tag of a field's boolean form, as those of `web.bodies.fields`."""


def _think_kind(value: object) -> str | None:
    return SWITCH if isinstance(value, bool) else TEXT if isinstance(value, str) else None


Think = Annotated[
    Annotated[bool, Tag(SWITCH)] | Annotated[Literal["low", "medium", "high", "max"], Tag(TEXT)],
    Discriminator(_think_kind, custom_error_type="think", custom_error_message="think"),
]


def _format_kind(value: object) -> str | None:
    return TEXT if isinstance(value, str) else "<schema>" if isinstance(value, dict) else None


Format = Annotated[
    Annotated[Literal["json", ""], Tag(TEXT)] | Annotated[JsonSchema, Tag("<schema>")],
    Discriminator(_format_kind, custom_error_type="answer_format", custom_error_message="answer_format"),
]


class CalledFunction(StrictModel):
    """Call by the model in an earlier turn; here the arguments are an object and not its text."""

    name: Name
    arguments: JsonObject | None = None


class MessageCall(StrictModel):
    """One call of an earlier turn."""

    id: Name | None = None
    function: CalledFunction


class Message(StrictModel):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Text | None = None
    thinking: Text | None = None
    tool_calls: Annotated[list[MessageCall], Field(max_length=MAX_CALLS, fail_fast=True)] | None = None
    tool_name: Name | None = None
    tool_call_id: Name | None = None


class ToolFunction(StrictModel):
    """A function that the model may call."""

    name: Name
    description: Text | None = None
    parameters: JsonSchema | None = None


class ToolBody(StrictModel):
    """A tool, which is always a function."""

    type: Literal["function"] | None = None
    function: ToolFunction


class ModelOptions(StrictModel):
    """Base of the bodies of all endpoints that compute something."""

    model: Name | None = None
    options: Options | None = None


class GenerationBody(ModelOptions):
    """Base of the bodies of the two endpoints that generate."""

    stream: bool | None = None
    think: Think | None = None
    format: Format | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    cede: ControlFields | None = None
    priority: Priority | None = None


class ChatBody(GenerationBody):
    """The body of `POST /api/chat`; without messages it asks only that the model is there."""

    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    tools: Annotated[list[ToolBody], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None


class GenerateBody(GenerationBody):
    """The body of `POST /api/generate`; without a prompt it asks only that the model is there."""

    prompt: Text | None = None
    suffix: Text | None = None
    system: Text | None = None
    raw: bool | None = None
    context: TokenIds | None = None


Inputs = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[Text], Field(max_length=MAX_INPUTS, fail_fast=True), Tag(TEXTS)],
    Discriminator(list_or_text, custom_error_type="list_or_text", custom_error_message="list_or_text"),
]


class EmbedBody(ModelOptions):
    """The body of `POST /api/embed`."""

    input: Inputs
    dimensions: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None


class OldEmbedBody(ModelOptions):
    """The body of `POST /api/embeddings`."""

    prompt: Text


class ModelBody(StrictModel):
    """A body that names a model, as that of `POST /api/show`; older clients call it `name`."""

    model: Name | None = None
    name: Name | None = None


# What changes nothing in the response: the model stays loaded, and no prompt is ever cut to fit.
HINTS = names_in(OLLAMA)

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "_debug_render_only": (False,),
    "template": ("",),
    "images": ([],),
    "width": (0,),
    "height": (0,),
    "steps": (0,),
}
UNSUPPORTED_IN_MESSAGES: dict[str, tuple[object, ...]] = {"images": ([],)}


def parse_body(schema: type[BodyT], raw: bytes, context_length: int) -> BodyT:
    """Validate the body `raw` of a request to a model with so long a context.

    Raises:
        RequestError: it does not fit the schema, or asks for what cede does not do; the message tells the first fault.
    """
    body = parse_model(schema, raw, UNSUPPORTED, context_length)
    if body.options is not None:
        refuse_unsupported(body.options, UNSUPPORTED_OPTIONS, "options.")
    return body


def ignored_fields(body: ModelOptions) -> list[str]:
    """Return the names of the fields and options that mean nothing to cede."""
    unknown = unknown_fields(body, HINTS, UNSUPPORTED)
    if body.options is not None:
        unknown += [f"options.{name}" for name in unknown_fields(body.options, IGNORED_OPTIONS, UNSUPPORTED_OPTIONS)]
    return unknown
