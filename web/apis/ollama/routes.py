"""The routes of Ollama's API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from actors.control import NO_CONTROL
from runtime.errors import RequestError
from web.apis.ollama.answers.formatter import CONTENT_TYPE
from web.apis.ollama.answers.models import line
from web.apis.ollama.asked import LoadRequest
from web.apis.ollama.chat import parse_chat
from web.apis.ollama.embed import parse_embed, parse_old_embed
from web.apis.ollama.generate import parse_generate
from web.apis.ollama.listing import check_name, processes, show, tags
from web.apis.ollama.operations import REFUSED, refused_method
from web.apis.ollama.schemas import ModelBody
from web.bodies.json_response import json_response
from web.bodies.strict_model import parse_model
from web.generation.control.fields import with_headers
from web.generation.embeddings.batch import Embedder
from web.generation.ignored import IgnoredFields
from web.http.asgi import current_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers.models import AnswerOptions, Version
    from web.generation.asked import Asked
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

    ParseFunction = Callable[[bytes, ServedModel, int], Asked[AnswerOptions] | LoadRequest]

API_VERSION = "0.12.11"
"""The version of Ollama whose API this is: clients compare it with that of the features which they want."""


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add Ollama's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
    """
    engine, ignored, embed = responder.engine, IgnoredFields(), Embedder(responder)

    async def generate(parse: ParseFunction) -> Response:
        asked = await responder.parse_body(parse)
        if isinstance(asked, LoadRequest):
            with_headers(NO_CONTROL, current_request().headers.items())  # nothing to control, but no slip goes unsaid
            return _load_response(asked)
        return await responder.answer(asked)

    @app.post("/api/chat")
    async def ollama_chat() -> Response:
        return await generate(partial(parse_chat, ignored=ignored))

    @app.post("/api/generate")
    async def ollama_generate() -> Response:
        return await generate(partial(parse_generate, ignored=ignored))

    @app.post("/api/embed")
    async def ollama_embed() -> Response:
        return await embed(partial(parse_embed, ignored=ignored))

    @app.post("/api/embeddings")
    async def ollama_embeddings() -> Response:
        return await embed(partial(parse_old_embed, ignored=ignored))

    @app.post("/api/show")
    async def ollama_show() -> Response:
        check_name(await responder.parse_body(_parse_name), engine.model)
        return json_response(show(engine.model))

    _add_inspection_routes(app, engine)
    _add_refusals(app)


def _add_inspection_routes(app: ScopedApp, engine: Engine) -> None:
    @app.get("/api/version")
    async def ollama_version() -> Response:
        version: Version = {"version": API_VERSION}
        return json_response(version)

    @app.get("/api/tags")
    async def ollama_tags() -> Response:
        return json_response(tags(engine.model))

    @app.get("/api/ps")
    async def ollama_ps() -> Response:
        return json_response(processes(engine.model))


def _add_refusals(app: ScopedApp) -> None:
    async def refuse(name: str) -> Response:
        raise RequestError(REFUSED[name], code="unsupported_endpoint")

    for name in REFUSED:
        method = refused_method(name).upper()
        app.add_url_rule(f"/api/{name}", f"ollama_{name}", refuse, methods=[method], defaults={"name": name})


def _load_response(asked: LoadRequest) -> Response:
    if not asked.stream:
        return json_response(asked.answer())
    return Response(line(asked.answer()), content_type=CONTENT_TYPE)


def _parse_name(raw: bytes, model: ServedModel, max_generations: int) -> str | None:
    """Return the name in a body that has one."""
    body = parse_model(ModelBody, raw)
    return body.model or body.name
