"""The objects that OpenAI's endpoints answer, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.openapi.operations import Answer


class ErrorDetails(Answer):
    """The error."""

    message: str
    type: str
    param: str | None = Field(description="The field that is at fault.")
    code: str | None = Field(description="For programs.")


class Error(Answer):
    """The error object, which OpenAI's clients turn into an exception."""

    error: ErrorDetails


class SamplingDefaults(Answer):
    """Sampling of requests that do not say how."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    sources: dict[str, str] = Field(description="Where each value comes from.")


class Model(Answer):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int = Field(description="Tokens of the context.")
    pooling: Literal["mean", "last"] | None = Field(description="Of embeddings; null where there are none.")
    sampling_defaults: SamplingDefaults


class ModelList(Answer):
    """The models that are served."""

    object: Literal["list"]
    data: list[Model]


class PromptTokensDetails(Answer):
    """Details of the prompt's tokens."""

    cached_tokens: int


class CompletionTokensDetails(Answer):
    """Details of the answer's tokens."""

    reasoning_tokens: int = Field(description="What the model thought before it answered.")
    accepted_prediction_tokens: int | None = Field(None, description="Drafts that were right, beside a `prediction`.")
    rejected_prediction_tokens: int | None = None


class RunningUsage(Answer):
    """Usage of the request so far."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Usage(RunningUsage):
    """Usage of the request."""

    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class PromptLogprob(Answer):
    """Log-probabilities at a position of the prompt."""

    logprob: float
    rank: int = Field(description="1 for the likeliest token.")
    decoded_token: str


class Timings(Answer):
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
    draft_n: int | None = None
    draft_n_accepted: int | None = None
