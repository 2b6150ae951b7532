"""Responses of JSON that are short: encoded and sent in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.json_encoding import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a short response, such as an error object."""
    return Response(dumps(value), status, dict(headers or {}), content_type="application/json")
