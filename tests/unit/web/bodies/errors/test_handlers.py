"""Every exception as an error object of the API that was asked, with that API's status."""

from __future__ import annotations

from typing import Any

import pytest
from quart.testing import WebsocketResponseError

from runtime.errors import QueueFull, RequestError
from web.bodies.errors.handlers import install_error_handlers
from web.bodies.errors.problem import ErrorRoute, ErrorShape, ErrorShapes, Problem
from web.http.asgi import ScopedApp, current_request
from web.http.body_budget import BodyBudget
from web.process.access.api_keys import KeyRefused

KINDS: dict[str, Exception] = {
    "bad": RequestError("no", param="top_p", code="odd"),
    "full": QueueFull("full", retry_after=1.2),
    "key": KeyRefused(),
    "bug": ZeroDivisionError("secret"),
}


def plain(name: str) -> ErrorShape:
    """Errors as `{"said": ...}`, and a full queue as status 418."""

    def body(problem: Problem, request_id: str | None) -> dict[str, Any]:
        return {"of": name, "said": problem.message, "code": problem.code, "id": request_id}

    return ErrorShape(body, lambda problem: 418 if problem.code == "queue_full" else problem.status)


def make() -> ScopedApp:
    """Return an application of two APIs, whose handlers raise."""
    app = ScopedApp("errors", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = 10
    app.bodies = BodyBudget(1000)
    install_error_handlers(app, ErrorShapes(plain("first"), [ErrorRoute("/second", plain("second"))]))

    @app.get("/<api>/raise/<kind>")
    async def fail(api: str, kind: str) -> str:
        if kind == "full":
            current_request().generation_id = "req-1"
        raise KINDS[kind]

    @app.post("/second/read")
    async def read() -> str:
        await current_request().body.read(1)
        return ""

    return app


@pytest.mark.parametrize("api", ["first", "second"])
@pytest.mark.parametrize(
    ("kind", "status", "code", "headers"),
    [
        ("bad", 400, "odd", {}),
        ("full", 418, "queue_full", {"retry-after": "2"}),
        ("key", 401, "invalid_api_key", {"www-authenticate": "Bearer"}),
        ("bug", 500, "internal_error", {}),
    ],
)
async def test_what_a_handler_raises(api: str, kind: str, status: int, code: str, headers: dict[str, str]) -> None:
    response = await make().test_client().get(f"/{api}/raise/{kind}")
    shown = await response.get_json()
    assert (response.status_code, shown["of"], shown["code"]) == (status, api, code)
    assert shown["id"] == ("req-1" if kind == "full" else None)
    assert "secret" not in shown["said"]
    assert {name: response.headers.get(name) for name in ("retry-after", "www-authenticate")} == {
        "retry-after": None,
        "www-authenticate": None,
    } | headers


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/second/other", 404, "unknown_url"),
        ("GET", "/second/read", 405, "method_not_allowed"),
        ("POST", "/second/read", 413, "request_too_large"),
    ],
)
async def test_what_never_reaches_a_handler(method: str, path: str, status: int, code: str) -> None:
    client: Any = make().test_client()
    response = await client.open(path, method=method, data=b"x" * 11)
    shown = await response.get_json()
    assert (response.status_code, shown["of"], shown["code"]) == (status, "second", code)


async def test_a_web_socket() -> None:
    async with make().test_client().websocket("/second/read") as socket:
        with pytest.raises(WebsocketResponseError) as refused:
            await socket.receive()
    assert (await refused.value.response.get_json())["of"] == "second"
