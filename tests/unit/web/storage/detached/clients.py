"""Requests that may outlive their clients, and applications that have them, for the tests in this folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import Exchange, FakeEngine, as_engine
from web.apis.responses.stored.state import State, open_state
from web.http.asgi import ScopedApp
from web.process.access.api_keys import KeyRing
from web.process.options import StateOptions
from web.serving.app import create_app

Json = dict[str, Any]

MESSAGES = [{"role": "user", "content": "hi"}]
FORMATS: dict[str, Json] = {
    "/v1/chat/completions": {"messages": MESSAGES, "stream_options": {"include_usage": True}},
    "/v1/completions": {"prompt": "hi", "logprobs": 1},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"model": "m", "messages": MESSAGES, "max_tokens": 9},
    "/api/chat": {"messages": MESSAGES},
    "/api/generate": {"prompt": "hi"},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
    "/v1/fim/completions": {"model": "m", "prompt": "a", "suffix": "b"},
}
"""A body for each API that generates."""


class GetExchange(Exchange):
    """A GET on its way through an application."""

    def __init__(self, path: str, state: Json, headers: dict[str, str]) -> None:
        path, _, query = path.partition("?")
        super().__init__(path, state, headers)
        self._scope |= {"method": "GET", "query_string": query.encode()}


@asynccontextmanager
async def detaching(
    engine: FakeEngine, *, keys: KeyRing | None = None, keep_alive: float = 1000.0, **options: object
) -> AsyncIterator[tuple[ScopedApp, State]]:
    """An application whose requests may outlive their clients."""
    engine.model.tokenizer = InfillTokenizer()
    async with open_state(as_engine(engine), StateOptions(**options), keep_alive) as state:  # type: ignore[arg-type]
        yield create_app(as_engine(engine), state=state, keys=keys, keep_alive=keep_alive), state


def events_in(stream: bytes, path: str) -> list[bytes]:
    """The events of a stream that may be attached to, without the comment that it begins with."""
    if path.startswith("/api/"):
        return stream.splitlines(keepends=True)
    events = [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]]
    assert events[0].startswith(b": ")
    for event in events[1:]:
        assert event.startswith(b"id: ")
    return events[1:]


def text_of(body: bytes) -> Any:  # noqa: ANN401
    """A body as JSON."""
    return json.loads(body)
