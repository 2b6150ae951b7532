"""The routes of Ollama's API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from actors.control import NO_CONTROL
from runtime.errors import RequestError
from web.apis.ollama.answers import (
    CONTENT_TYPE,
    ChatAnswer,
    EmbedAnswer,
    Error,
    GenerateAnswer,
    OldEmbedAnswer,
    Processes,
    Show,
    Tags,
    Version,
    line,
)
from web.apis.ollama.asked import LoadRequest
from web.apis.ollama.listing import check_name, processes, show, tags
from web.apis.ollama.parse import parse_chat, parse_embed, parse_generate, parse_old_embed
from web.apis.ollama.schemas import ChatBody, EmbedBody, GenerateBody, ModelBody, OldEmbedBody
from web.bodies.responses import json_response
from web.bodies.strict_model import parse_model
from web.generation.control.fields import CONTROL_HEADERS, with_headers
from web.generation.embeddings import Embedder
from web.generation.passed_over import IgnoredFields
from web.http.asgi import current_request
from web.openapi.operations import GENERATES, Api, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers import AnswerOptions
    from web.generation.asked import Asked
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

    ParseFunction = Callable[[bytes, ServedModel, int], Asked[AnswerOptions] | LoadRequest]

API_VERSION = "0.12.11"
"""The version of Ollama whose API this is: clients compare it with that of the features which they want."""


REFUSED = {
    "pull": "This server serves the model that it was started with; `cede pull` fetches others.",
    "push": "This server publishes no models.",
    "create": "This server makes no models.",
    "copy": "This server serves one model, under one name.",
    "delete": "This server does not delete models; `cede rm` does.",
}
"""What the endpoints answer that a server of one model does not have."""


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add Ollama's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
    """
    api = Api(app, "Ollama", "Ollama's API, for clients that know no other.", Error)
    _add_generating_routes(api, responder)
    _add_embedding_routes(api, responder)
    _add_inspection_routes(api, responder)
    _add_refusals(api)


def _add_generating_routes(api: Api, responder: Responder) -> None:
    ignored = IgnoredFields()

    async def generate(parse: ParseFunction) -> Response:
        asked = await responder.parse_body(parse)
        if isinstance(asked, LoadRequest):
            with_headers(NO_CONTROL, current_request().headers.items())  # nothing to control, but no slip goes unsaid
            return _load_response(asked)
        return await responder.answer(asked)

    @api.post(
        "/api/chat",
        {200: Reply.generated(ChatAnswer, ChatAnswer, CONTENT_TYPE)},
        GENERATES,
        body=ChatBody,
        example={"model": "any", "messages": [{"role": "user", "content": "What is the capital of France?"}]},
        parameters=CONTROL_HEADERS,
    )
    async def ollama_chat() -> Response:
        """Create a chat completion, in lines unless `stream` is false."""
        return await generate(partial(parse_chat, ignored=ignored))

    @api.post(
        "/api/generate",
        {200: Reply.generated(GenerateAnswer, GenerateAnswer, CONTENT_TYPE)},
        GENERATES,
        body=GenerateBody,
        example={"model": "any", "prompt": "What is the capital of France?", "options": {"num_predict": 16}},
        parameters=CONTROL_HEADERS,
    )
    async def ollama_generate() -> Response:
        """Create a completion of a prompt, or of the gap before a suffix."""
        return await generate(partial(parse_generate, ignored=ignored))


def _add_embedding_routes(api: Api, responder: Responder) -> None:
    ignored, embed = IgnoredFields(), Embedder(responder)

    @api.post(
        "/api/embed",
        {200: Reply.json(EmbedAnswer)},
        GENERATES,
        body=EmbedBody,
        example={"model": "any", "input": ["import os", "import sys"]},
    )
    async def ollama_embed() -> Response:
        """Create embeddings, each of length 1."""
        return await embed(partial(parse_embed, ignored=ignored))

    @api.post(
        "/api/embeddings",
        {200: Reply.json(OldEmbedAnswer)},
        GENERATES,
        body=OldEmbedBody,
        example={"model": "any", "prompt": "import os"},
    )
    async def ollama_embeddings() -> Response:
        """Create one embedding, of any length; what clients used before there was /api/embed."""
        return await embed(partial(parse_old_embed, ignored=ignored))


def _add_inspection_routes(api: Api, responder: Responder) -> None:
    engine = responder.engine

    @api.post("/api/show", {200: Reply.json(Show)}, {404, 503}, body=ModelBody, example={"model": "embedded"})
    async def ollama_show() -> Response:
        """Show what is known of the served model."""
        check_name(await responder.parse_body(_parse_name), engine.model)
        return json_response(show(engine.model))

    @api.get("/api/version", {200: Reply.json(Version)})
    async def ollama_version() -> Response:
        """Get the API's version."""
        version: Version = {"version": API_VERSION}
        return json_response(version)

    @api.get("/api/tags", {200: Reply.json(Tags)})
    async def ollama_tags() -> Response:
        """List the served model."""
        return json_response(tags(engine.model))

    @api.get("/api/ps", {200: Reply.json(Processes)})
    async def ollama_ps() -> Response:
        """List the served model as a loaded one."""
        return json_response(processes(engine.model))


def _add_refusals(api: Api) -> None:
    async def refuse(text: str) -> Response:
        raise RequestError(text, code="unsupported_endpoint")

    for name, text in REFUSED.items():
        method = "delete" if name == "delete" else "post"
        add = api.route(method, f"/api/{name}", {}, {400, 413}, name=f"ollama_{name}", summary=text)
        add(partial(refuse, text))


def _load_response(asked: LoadRequest) -> Response:
    if not asked.stream:
        return json_response(asked.answer())
    return Response(line(asked.answer()), content_type=CONTENT_TYPE)


def _parse_name(raw: bytes, model: ServedModel, max_generations: int) -> str | None:
    """Return the name in a body that has one."""
    body = parse_model(ModelBody, raw)
    return body.model or body.name
