"""The routes of OpenAI's API: chat completions, completions, and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.body_parser import BodyParser
from web.bodies.collect import collect
from web.bodies.event_stream import CONTENT_TYPE, HEADERS, EventStream
from web.bodies.paged_response import paged_json_response
from web.http.asgi import current_request
from web.http.body_budget import BODY_TIMEOUT
from web.openai.chunks import ChunkWriter
from web.openai.conversion import parse_chat, parse_completion
from web.openai.errors import json_response, not_found
from web.openai.response_builder import ResponseBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from web.http.asgi import ScopedApp
    from web.openai.conversion import ParsedRequest

    ParseFunction = Callable[[bytes, ServedModel, int], ParsedRequest]


def add_routes(app: ScopedApp, engine: Engine, *, write_bytes: int, keep_alive: float) -> None:
    """Add OpenAI's API to an application.

    Args:
        app: to be extended.
        engine: serves the requests.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream gets a comment.
    """
    generate = _Generate(engine, write_bytes, keep_alive)

    @app.post("/v1/chat/completions")
    async def chat_completions() -> Response:
        return await generate(parse_chat)

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await generate(parse_completion)

    @app.get("/v1/models")
    async def models() -> Response:
        return json_response({"object": "list", "data": [_model_object(engine.model)]})

    @app.get("/v1/models/<path:name>")
    async def model(name: str) -> Response:
        if name != engine.model.name:
            return not_found(f"The model '{name}' does not exist.", "model", "model_not_found")
        return json_response(_model_object(engine.model))


class _Generate:
    """Handles both generation endpoints: parses the body, opens the request, and answers with a stream or whole."""

    def __init__(self, engine: Engine, write_bytes: int, keep_alive: float) -> None:
        self._engine = engine
        self._parser = BodyParser(engine)
        self._write_bytes = write_bytes
        self._keep_alive = keep_alive

    async def __call__(self, parse: ParseFunction) -> Response:
        parsed = await self._parse_body(parse)
        current_request().generation_id = parsed.request.id
        return await (self._stream(parsed) if parsed.stream else self._respond(parsed))

    async def _parse_body(self, parse: ParseFunction) -> ParsedRequest:
        body = current_request().body
        raw = await body.read(BODY_TIMEOUT)
        with body.reservation:  # until the body is parsed
            return await self._parser.parse(parse, raw)

    async def _stream(self, parsed: ParsedRequest) -> Response:
        """Open the request and return the response that streams it.  What opening raises is an ordinary error."""
        http_request = current_request()
        opening = self._engine.open_request(parsed.request, disconnect_reason=http_request.disconnect_reason)
        request = await http_request.resources.enter_async_context(opening)
        writer = ChunkWriter(parsed.options, parsed.format)
        body = EventStream(request, writer, self._keep_alive, http_request.resources.aclose, self._write_bytes)
        return Response(body, headers=HEADERS, content_type=CONTENT_TYPE)

    async def _respond(self, parsed: ParsedRequest) -> Response:
        """Run the request to its end and return the whole response.  What it raises is an ordinary error."""
        http_request = current_request()
        name = f"request {parsed.request.id}"
        backlog = http_request.resources.enter_context(self._engine.unread.backlog(name, gathering=True))
        builder = ResponseBuilder(parsed.options, parsed.format, self._write_bytes)
        opening = self._engine.open_request(parsed.request, disconnect_reason=http_request.disconnect_reason)
        async with opening as request:
            response = await collect(request, builder, backlog)
        return await paged_json_response(response, backlog, self._write_bytes)


def _model_object(model: ServedModel) -> dict[str, Any]:
    """Return OpenAI's model object, with vLLM's name for the context length, and the defaults of sampling."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "cede",
        "max_model_len": model.context_length,
        "sampling_defaults": model.sampling.values() | {"sources": dict(model.sampling.sources)},
    }
