"""The model that is served, as Anthropic's API shows models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.apis.anthropic.answers.objects import ModelInfo, ModelPage

VERSION_HEADER = "anthropic-version"
"""The header that every client of Anthropic's API sends."""


def model_object(model: ServedModel) -> ModelInfo:
    """Return Anthropic's model object."""
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": datetime.fromtimestamp(model.created, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
    }


def model_list(model: ServedModel) -> ModelPage:
    """Return the list of all models, on one page."""
    return {"data": [model_object(model)], "first_id": model.name, "last_id": model.name, "has_more": False}
