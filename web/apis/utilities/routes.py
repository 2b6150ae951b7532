"""The routes of the utilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.utilities.answers import Version
from web.apis.utilities.operations import RERANKERS
from web.apis.utilities.properties import properties
from web.apis.utilities.tokens import apply_template, detokenize, tokenize
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.process.version import cede_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from quart_trio.wrappers import TrioResponse as Response

    from runtime.loading.served import ServedModel
    from web.bodies.json_types import JsonObject
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add the utilities to an application.

    Args:
        app: to be extended.
        responder: parses the bodies; its engine's model is asked.
    """
    engine = responder.engine

    async def answer(function: Callable[[bytes, ServedModel, int], JsonObject]) -> Response:
        """Answer with what `function` makes of the body, which may be long."""
        value = await responder.parse_body(function)
        return await paged_json_response(value, response_backlog(engine.unread), responder.write_bytes)

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
        return json_response(Version(version=cede_version()))

    async def rerank() -> Response:
        raise RequestError("This server does not rerank documents.", code="unsupported_endpoint")

    for path in RERANKERS:
        app.add_url_rule(path, f"rerank {path}", rerank, methods=["POST"])
