"""The objects that Ollama's endpoints answer, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from web.generation.control.cancel_note import CancelNote
from web.openapi.operations import Answer


class Error(Answer):
    """The error object."""

    error: str


class Alternative(Answer):
    """A token and its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class Logprob(Alternative):
    """The same of a token that was drawn."""

    top_logprobs: list[Alternative] | None = None


class Progress(Answer):
    """Fields that all answers have; durations in nanoseconds, and in the last object of a stream alone."""

    model: str
    created_at: str
    done: bool
    done_reason: Literal["stop", "length", "cancelled", "load"] | None = None
    total_duration: int | None = None
    load_duration: int | None = Field(None, description="Neither on the prompt nor on the answer: waiting.")
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: list[Logprob] | None = None
    cede: CancelNote | None = None


class EmbedAnswer(Answer):
    """The vectors of all inputs, in their order; durations in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OldEmbedAnswer(Answer):
    """The vector of the prompt, as it is: it was not divided by its length."""

    embedding: list[float]


class CalledFunction(Answer):
    """A function that the model calls."""

    index: int
    name: str
    arguments: dict[str, Any]


class ToolCall(Answer):
    """A tool call, which always comes whole."""

    id: str
    function: CalledFunction


class Message(Answer):
    """The model's message, or the next part of it."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None


class ChatAnswer(Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    message: Message


class GenerateAnswer(Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    response: str
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    context: list[int] | None = Field(None, description="The ids of prompt and answer, for the next request.")


class Details(Answer):
    """Details of the model, from its files."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class Tag(Answer):
    """The model that is served."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details


class Tags(Answer):
    """All models: the one."""

    models: list[Tag]


class Process(Answer):
    """The model that is loaded."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    context_length: int


class Processes(Answer):
    """All loaded models: the one."""

    models: list[Process]


class Show(Answer):
    """Description of the model."""

    modelfile: str
    parameters: str
    template: str = Field(description="In Jinja.")
    details: Details
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class Version(Answer):
    """The version of Ollama whose API this is."""

    version: str
