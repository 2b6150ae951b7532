"""The objects that OpenAI's endpoints answer."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


class ErrorDetails(TypedDict):
    """The error."""

    message: str
    type: str
    param: Annotated[str | None, Field(description="The field that is at fault.")]
    code: Annotated[str | None, Field(description="For programs.")]


class Error(TypedDict):
    """The error object, which OpenAI's clients turn into an exception."""

    error: ErrorDetails


class SamplingDefaults(TypedDict):
    """Sampling of requests that do not say how."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    sources: Annotated[dict[str, str], Field(description="Where each value comes from.")]


class Model(TypedDict):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: Annotated[int, Field(description="Tokens of the context.")]
    pooling: Annotated[Literal["mean", "last"] | None, Field(description="Of embeddings; null where there are none.")]
    sampling_defaults: SamplingDefaults


class ModelList(TypedDict):
    """The models that are served."""

    object: Literal["list"]
    data: list[Model]


class PromptTokensDetails(TypedDict):
    """Details of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    """Details of the answer's tokens."""

    reasoning_tokens: Annotated[int, Field(description="What the model thought before it answered.")]
    accepted_prediction_tokens: NotRequired[
        Annotated[int | None, Field(description="Drafts that were right, beside a `prediction`.")]
    ]
    rejected_prediction_tokens: NotRequired[int | None]


class RunningUsage(TypedDict):
    """Usage of the request so far."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Usage(RunningUsage):
    """Usage of the request."""

    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class PromptLogprob(TypedDict):
    """Log-probabilities at a position of the prompt."""

    logprob: float
    rank: Annotated[int, Field(description="1 for the likeliest token.")]
    decoded_token: str


class Timings(TypedDict):
    """Timings in the words of llama-server; milliseconds."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: NotRequired[int | None]
    draft_n_accepted: NotRequired[int | None]
