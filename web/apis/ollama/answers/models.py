"""The objects that Ollama's endpoints answer."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.bodies.json_types import Long
from web.generation.control.cancel_note import CancelNote
from web.generation.logprobs import Alternative


class Error(TypedDict):
    """The error object."""

    error: str


class Logprob(Alternative):
    """A token that was drawn, its log-probability, and likely others."""

    top_logprobs: NotRequired[list[Alternative]]


class Beginning(TypedDict):
    """Fields that all answers begin with."""

    model: str
    created_at: str


class Progress(TypedDict):
    """Fields that all answers have; durations in nanoseconds, and in the last object of a stream alone."""

    done: bool
    done_reason: NotRequired[Literal["stop", "length", "cancelled", "load"]]
    total_duration: NotRequired[int]
    load_duration: NotRequired[Annotated[int, Field(description="Neither on the prompt nor on the answer: waiting.")]]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    logprobs: NotRequired[Long[list[Logprob]]]
    cede: NotRequired[CancelNote]


class ProgressWithIds(Progress):
    """The same, and the ids with which an answer to a prompt ends."""

    context: NotRequired[
        Annotated[Long[list[int]], Field(description="The ids of prompt and answer, for the next request.")]
    ]


class EmbedAnswer(TypedDict):
    """The vectors of all inputs, in their order; durations in nanoseconds."""

    model: str
    embeddings: list[Long[list[float]]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OldEmbedAnswer(TypedDict):
    """The vector of the prompt, as it is: it was not divided by its length."""

    embedding: Long[list[float]]


class CalledFunction(TypedDict):
    """A function that the model calls."""

    index: int
    name: str
    arguments: Long[dict[str, object]]


class ToolCall(TypedDict):
    """A tool call, which always comes whole."""

    id: str
    function: CalledFunction


class Beside(TypedDict):
    """The model's thoughts and calls, or the next part of them."""

    thinking: NotRequired[Long[str]]
    tool_calls: NotRequired[list[ToolCall]]


class Message(Beside):
    """The model's message, or the next part of it."""

    role: Literal["assistant"]
    content: Long[str]


class ChatAnswer(Beginning, Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    message: Message


class GenerateAnswer(Beginning, Beside, ProgressWithIds):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    response: Long[str]


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
    model_info: dict[str, str | int]
    capabilities: list[str]
    modified_at: str


class Version(TypedDict):
    """The version of Ollama whose API this is."""

    version: str
