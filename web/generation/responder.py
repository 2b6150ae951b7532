"""The way of a generation request through the server, the same for every API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.body_parser import BodyParser
from web.bodies.collect import collect
from web.bodies.event_stream import EventStream
from web.bodies.paged_response import paged_json_response
from web.http.asgi import current_request
from web.http.body_budget import BODY_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actors.engine import Engine
    from actors.request import Request
    from runtime.loading.served import ServedModel
    from web.generation.asked import Asked

    ParseFunction = Callable[[bytes, ServedModel, int], Asked]

T = TypeVar("T")


class Responder:
    """Parses a body, opens the request, and answers with a stream or whole.

    Args:
        engine: serves the requests.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """

    def __init__(self, engine: Engine, write_bytes: int, keep_alive: float) -> None:
        self.engine = engine
        self.write_bytes = write_bytes
        self._parser = BodyParser(engine)
        self._keep_alive = keep_alive

    async def __call__(self, parse: ParseFunction) -> Response:
        """Answer the current request, whose body `parse` understands."""
        return await self.answer(await self.parse_body(parse))

    async def answer(self, asked: Asked) -> Response:
        """Answer the current request, which was understood."""
        current_request().generation_id = asked.request.id
        return await (self._stream(asked) if asked.stream else self._respond(asked))

    async def parse_body(self, parse: Callable[[bytes, ServedModel, int], T]) -> T:
        """Read the current request's body, and return what `parse` makes of it."""
        current_request().claim_place()
        body = current_request().body
        raw = await body.read(BODY_TIMEOUT)
        with body.reservation:  # until the body is parsed
            return await self._parser.parse(parse, raw)

    def _open(self, asked: Asked) -> AbstractAsyncContextManager[Request]:
        """Return the scope in which the request runs, for whoever sent the current HTTP request."""
        http_request = current_request()
        request = replace(asked.request, owner=http_request.owner, queue_share=http_request.queue_share)
        return self.engine.open_request(request, disconnect_reason=http_request.disconnect_reason)

    async def _stream(self, asked: Asked) -> Response:
        """Open the request and return the response that streams it.  What opening raises is an ordinary error."""
        http_request = current_request()
        request = await http_request.resources.enter_async_context(self._open(asked))
        writer = asked.writer()
        body = EventStream(request, writer, self._keep_alive, http_request.resources.aclose, self.write_bytes)
        return Response(body, headers=dict(writer.headers), content_type=writer.content_type)

    async def _respond(self, asked: Asked) -> Response:
        """Run the request to its end and return the whole response.  What it raises is an ordinary error."""
        http_request = current_request()
        name = f"request {asked.request.id}"
        backlog = http_request.resources.enter_context(self.engine.unread.backlog(name, gathering=True))
        collector = asked.collector(self.write_bytes)
        async with self._open(asked) as request:
            response = await collect(request, collector, backlog)
        return await paged_json_response(response, backlog, self.write_bytes)
