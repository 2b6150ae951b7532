"""The objects that Ollama's endpoints answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.generation.control.cancel_note import CancelNote


class Error(TypedDict):
    """The error object."""

    error: str


class Alternative(TypedDict):
    """A token and its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class Logprob(Alternative):
    """The same of a token that was drawn."""

    top_logprobs: NotRequired[list[Alternative] | None]


class Progress(TypedDict):
    """Fields that all answers have; durations in nanoseconds, and in the last object of a stream alone."""

    model: str
    created_at: str
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "cancelled", "load"] | None]
    total_duration: NotRequired[int | None]
    load_duration: NotRequired[
        Annotated[int | None, Field(description="Neither on the prompt nor on the answer: waiting.")]
    ]
    prompt_eval_count: NotRequired[int | None]
    prompt_eval_duration: NotRequired[int | None]
    eval_count: NotRequired[int | None]
    eval_duration: NotRequired[int | None]
    logprobs: NotRequired[list[Logprob] | None]
    cede: NotRequired[CancelNote | None]


class EmbedAnswer(TypedDict):
    """The vectors of all inputs, in their order; durations in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OldEmbedAnswer(TypedDict):
    """The vector of the prompt, as it is: it was not divided by its length."""

    embedding: list[float]


class CalledFunction(TypedDict):
    """A function that the model calls."""

    index: int
    name: str
    arguments: dict[str, Any]


class ToolCall(TypedDict):
    """A tool call, which always comes whole."""

    id: str
    function: CalledFunction


class Message(TypedDict):
    """The model's message, or the next part of it."""

    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]


class ChatAnswer(Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    message: Message


class GenerateAnswer(Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    response: str
    thinking: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    context: NotRequired[
        Annotated[list[int] | None, Field(description="The ids of prompt and answer, for the next request.")]
    ]


class Details(TypedDict):
    """Details of the model, from its files."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class Tag(TypedDict):
    """The model that is served."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details


class Tags(TypedDict):
    """All models: the one."""

    models: list[Tag]


class Process(TypedDict):
    """The model that is loaded."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    context_length: int


class Processes(TypedDict):
    """All loaded models: the one."""

    models: list[Process]


class Show(TypedDict):
    """Description of the model."""

    modelfile: str
    parameters: str
    template: Annotated[str, Field(description="In Jinja.")]
    details: Details
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class Version(TypedDict):
    """The version of Ollama whose API this is."""

    version: str
