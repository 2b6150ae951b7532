"""JSON in one piece: short responses, and values that are to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers import TrioResponse as Response

from runtime.common.units import KIB
from web.bodies.json_encoding import FRAGMENT, dumps, iter_json

if TYPE_CHECKING:
    from collections.abc import Mapping

ENCODED_AT_A_TIME = 64 * KIB
"""Bytes that are encoded before other tasks run."""


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a short response, such as an error object."""
    return Response(dumps(value), status, dict(headers or {}), content_type="application/json")


async def encode_json(value: object) -> bytes:
    """Encode a value that may be long, as `json_encoding.iter_json` takes it; others run in between."""
    fragments, size = [], 0
    for fragment in iter_json(value):
        fragments.append(fragment)
        size += max(len(fragment), FRAGMENT)
        if size >= ENCODED_AT_A_TIME:
            size = 0
            await trio.lowlevel.checkpoint()
    return b"".join(fragments)
