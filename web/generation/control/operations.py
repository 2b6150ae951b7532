"""The headers of a request that generates, for the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from web.generation.control.fields import ControlFields, header_name
from web.openapi.operations import Parameter

if TYPE_CHECKING:
    from web.openapi.operations import Json


def _headers() -> tuple[Parameter, ...]:
    schema = ControlFields.model_json_schema()
    return tuple(
        Parameter(header_name(name), f"As `cede.{name}` in the body, and before it.", _without_null(field), "header")
        for name, field in schema["properties"].items()
    )


def _without_null(field: Json) -> Json:
    (value,) = (choice for choice in field["anyOf"] if choice != {"type": "null"})
    return dict(value)


CONTROL_HEADERS = _headers()
"""The parameters of an operation that generates."""
