"""The body of a change of a stored chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.bodies.fields import Metadata
from web.bodies.json_size import check_json_size
from web.bodies.strict_model import StrictModel, parse_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.loading.served import ServedModel


class MetadataBody(StrictModel):
    """The body of `POST /v1/chat/completions/{completion_id}`: all of the new metadata; null for none."""

    metadata: Metadata | None


def parse_metadata(raw: bytes, model: ServedModel, max_generations: int = 1) -> Mapping[str, str]:
    """Return the metadata of a body.

    Raises:
        RequestError: it is not valid.
    """
    check_json_size(raw, model.context_length)
    return parse_model(MetadataBody, raw).metadata or {}
