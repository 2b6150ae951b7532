"""The routes of the utilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response
from web.generation.responder import Responder
from web.http.asgi import current_request
from web.utilities.operations import RERANKERS
from web.utilities.properties import cede_version, properties
from web.utilities.tokens import apply_template, detokenize, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable

    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from web.http.asgi import ScopedApp


def add_routes(app: ScopedApp, engine: Engine, *, write_bytes: int, keep_alive: float) -> None:
    """Add the utilities to an application.

    Args:
        app: to be extended.
        engine: whose model is asked.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """
    responder = Responder(engine, write_bytes, keep_alive)

    async def answer(function: Callable[[bytes, ServedModel, int], dict[str, Any]]) -> Response:
        """Answer with what `function` makes of the body, which may be long."""
        http_request = current_request()
        value = await responder.parse_body(function)
        name = f"POST {http_request.path}"
        backlog = http_request.resources.enter_context(engine.unread.backlog(name, gathering=True))
        return await paged_json_response(value, backlog, write_bytes)

    @app.post("/tokenize")
    async def tokenize_text() -> Response:
        return await answer(tokenize)

    @app.post("/detokenize")
    async def detokenize_tokens() -> Response:
        return await answer(detokenize)

    @app.post("/apply-template")
    async def apply_chat_template() -> Response:
        return await answer(apply_template)

    @app.get("/props")
    async def props() -> Response:
        return json_response(properties(engine.model, sum(1 for _ in engine.slots())))

    @app.get("/version")
    async def version() -> Response:
        return json_response({"version": cede_version()})

    async def rerank() -> Response:
        raise RequestError("This server does not rerank documents.", code="unsupported_endpoint")

    for path in RERANKERS:
        app.add_url_rule(path, f"rerank {path}", rerank, methods=["POST"])
