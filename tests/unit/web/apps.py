"""The application with scripted requests, for Quart's test client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.engine import FakeEngine, as_engine, say
from web.serving.app import create_app

if TYPE_CHECKING:
    from quart.wrappers import Response

    from web.http.asgi import ScopedApp


CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


def make(engine: FakeEngine | None = None) -> ScopedApp:
    """Return the application over an engine; by default it says "Hello" in two tokens."""
    return create_app(as_engine(engine or FakeEngine(say("Hel", "lo"))))


async def error_in(response: Response, status: int) -> dict[str, Any]:
    """The error object of a response, after a look at its shape."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = await response.get_json()
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error
