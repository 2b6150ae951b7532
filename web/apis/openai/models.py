"""The model that is served, as OpenAI's API shows models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runtime.step.prompt_rows.wanted import Pooling

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel


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
    pooling: Annotated[Pooling | None, Field(description="Of embeddings; null where there are none.")]
    sampling_defaults: SamplingDefaults


class ModelList(TypedDict):
    """The models that are served."""

    object: Literal["list"]
    data: list[Model]


def model_object(model: ServedModel) -> Model:
    """Return OpenAI's model object, with vLLM's name for the context, the pooling of embeddings, and the defaults."""
    sampling = model.sampling
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "cede",
        "max_model_len": model.context_length,
        "pooling": model.pooling,
        "sampling_defaults": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "sources": dict(sampling.sources),
        },
    }


def model_list(model: ServedModel) -> ModelList:
    """Return the list of all models."""
    return {"object": "list", "data": [model_object(model)]}
