"""The body of `POST /v1/embeddings`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from web.bodies.fields import Name, Priority, Prompt
from web.bodies.strict_model import StrictModel, show_unsupported
from web.process.limits import MAX_INTEGER

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "messages": (),  # vLLM's, as the next two
    "truncate_prompt_tokens": (),
    "additional_data": (),
    "embedding_types": (["float"],),  # Cohere's
    "input_type": (),
}
"""Fields that would change a vector, with the values (beside null) that ask for nothing."""

HINTS = frozenset({"request_id", "modality"})


class EmbeddingBody(StrictModel):
    """The body of `POST /v1/embeddings`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    input: Prompt
    model: Name | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    user: Name | None = None
    normalize: bool | None = None  # vLLM's
    priority: Priority | None = None  # vLLM's, too
