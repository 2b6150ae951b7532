"""The request bodies of Ollama's API, as strict pydantic models; null stands for "not given".

Fields outside these models are, as in OpenAI's API: names that mean nothing to cede (logged and ignored), hints
(`HINTS`), and features that cede does not have (`UNSUPPORTED`), which are refused unless they hold a neutral value.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Discriminator, Field, Tag

from web.apis.ollama.options import IGNORED_OPTIONS, UNSUPPORTED_OPTIONS, Options
from web.bodies.fields import (
    TEXT,
    TEXTS,
    JsonObject,
    JsonSchema,
    Name,
    Priority,
    Text,
    TokenIds,
    TopLogprobs,
    list_or_text,
)
from web.bodies.strict_model import StrictModel, parse_model, refuse_unsupported, unknown_fields
from web.generation.control.fields import ControlFields
from web.generation.passed_over import OLLAMA, names_in
from web.process.limits import MAX_CALLS, MAX_INPUTS, MAX_INTEGER, MAX_MESSAGES, MAX_TOOLS

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
