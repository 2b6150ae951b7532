"""Requests that will be hung up on, and what their receipts have to say."""

from __future__ import annotations

from tests.live.http_client import Http1, prompt
from tests.live.server import Json

SHORT = prompt(30, seed=2)
OURS = prompt(25, seed=3)
SOLO = 400  # tokens of the neighbour's solo run


def error_told(client: Http1, stream: bool, status: int, *, retry_after: str | None = None) -> Json:
    """The error that a client gets in place of its tokens: as an event of its stream, or with this status."""
    if stream:
        client.read_all()
        return client.errors[0]
    answered, headers, answer = client.answer()
    assert (answered, headers.get("retry-after")) == (status, retry_after)
    error: Json = answer["error"]
    return error
