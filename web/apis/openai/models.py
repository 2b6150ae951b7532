"""The model that is served, as OpenAI's API shows models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel


def model_object(model: ServedModel) -> dict[str, Any]:
    """Return OpenAI's model object, with vLLM's name for the context, the pooling of embeddings, and the defaults."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "cede",
        "max_model_len": model.context_length,
        "pooling": model.pooling,
        "sampling_defaults": model.sampling.values() | {"sources": dict(model.sampling.sources)},
    }


def model_list(model: ServedModel) -> dict[str, Any]:
    """Return the list of all models."""
    return {"object": "list", "data": [model_object(model)]}
