"""The routes of the utilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.utilities import tokens
from web.apis.utilities.answers import AppliedTemplate, Detokenized, Properties, Tokens, Version, properties
from web.apis.utilities.tokens import DetokenizeBody, TokenizeBody
from web.bodies.responses import json_response
from web.generation.openai_format.chat.schema import ChatBody
from web.generation.openai_format.errors import Error
from web.openapi.operations import Api, Reply
from web.process.version import cede_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from quart_trio.wrappers import TrioResponse as Response

    from runtime.loading.served import ServedModel
    from web.bodies.json_encoding import JsonObject
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

RERANKERS = ("/rerank", "/v1/rerank", "/v1/reranking")
"""Under which paths servers rerank, which this one does not."""


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add the utilities to an application.

    Args:
        app: to be extended.
        responder: parses the bodies; its engine's model is asked.
    """
    about = "What llama-server's and vLLM's clients ask for beside chats and completions."
    api, engine = Api(app, "Utilities", about, Error), responder.engine

    async def answer(function: Callable[[bytes, ServedModel, int], JsonObject]) -> Response:
        """Answer with what `function` makes of the body, which may be long."""
        return await responder.long_response(await responder.parse_body(function))

    @api.post(
        "/tokenize",
        {200: Reply.json(Tokens)},
        {503},
        body=TokenizeBody,
        example={"content": "import os", "with_pieces": True},
    )
    async def tokenize() -> Response:
        """Tokenize a text or a chat."""
        return await answer(tokens.tokenize)

    @api.post("/detokenize", {200: Reply.json(Detokenized)}, {503}, body=DetokenizeBody, example={"tokens": [1, 2, 3]})
    async def detokenize() -> Response:
        """Detokenize: get the text of tokens."""
        return await answer(tokens.detokenize)

    @api.post(
        "/apply-template",
        {200: Reply.json(AppliedTemplate)},
        {503},
        body=ChatBody,
        example={"messages": [{"role": "user", "content": "What is the capital of France?"}]},
    )
    async def apply_template() -> Response:
        """Apply the chat template: get the prompt that it makes of a chat."""
        return await answer(tokens.apply_template)

    @api.get("/props", {200: Reply.json(Properties)})
    async def props() -> Response:
        """Get the server's properties."""
        return json_response(properties(engine.model, sum(1 for _ in engine.slots())))

    @api.get("/version", {200: Reply.json(Version)})
    async def version() -> Response:
        """Get the version of cede."""
        return json_response(Version(version=cede_version()))

    async def rerank() -> Response:
        """Refused: it ranks nothing."""
        raise RequestError("This server does not rerank documents.", code="unsupported_endpoint")

    for number, path in enumerate(RERANKERS):
        api.route("post", path, {}, {400}, name=f"rerank_{number}")(rerank)
