"""The model that is served, as Anthropic's API shows models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel

VERSION_HEADER = "anthropic-version"
"""The header that every client of Anthropic's API sends."""


class ModelInfo(TypedDict):
    """A model that is served, in Anthropic's words."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: Annotated[str, Field(description="RFC 3339.")]
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int


class ModelPage(TypedDict):
    """The models that are served, in Anthropic's words."""

    data: list[ModelInfo]
    first_id: str
    last_id: str
    has_more: Literal[False]


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
