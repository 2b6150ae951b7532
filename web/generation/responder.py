"""The way of a generation request through the server, the same for every API."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from quart_trio.wrappers import TrioResponse as Response

from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from web.bodies.body_parser import BodyParser
from web.bodies.collect import collect
from web.bodies.event_stream import EventStream
from web.bodies.responses import encode_json, paged_json_response, response_backlog
from web.generation.control.fields import checked, with_headers
from web.http.asgi import current_request
from web.http.body_budget import BODY_TIMEOUT
from web.storage.detached.attaching import attached, whole
from web.storage.detached.makers import StreamMaker, WholeMaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractContextManager

    from actors.core.generation import GenerationRequest
    from actors.engine import Engine
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.errors import CedeError
    from runtime.loading.served import ServedModel
    from web.bodies.collect import EventCollector
    from web.bodies.json_encoding import JsonObject, SelfEncoding
    from web.generation.answer import Formatter
    from web.generation.asked import Asked
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Maker, Runs

    ParseFunction = Callable[[bytes, ServedModel, int], Asked[Any]]
    """Turns a body into what it asks for, given the model to be served from, and how many generations the server can
    hold.  Raises RequestError where it is not valid, or asks for more than the server or the model can hold."""
    Keep = Callable[[JsonObject], Awaitable[JsonObject | SelfEncoding]]
    """Is given a whole answer before its client has read the end of it, and returns it as it is sent."""

T = TypeVar("T")


class Responder:
    """Parses a body, opens the request, and answers with a stream or whole.

    An application has one, so that all APIs together parse no more bodies at a time than its parser lets them.

    Args:
        engine: serves the requests.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
        runs: has the requests that may outlive their clients; None where none may.

    Attributes:
        engine, write_bytes, keep_alive: the same.
        parser: of the bodies.
    """

    def __init__(self, engine: Engine, write_bytes: int, keep_alive: float, runs: Runs | None = None) -> None:
        self.engine = engine
        self.write_bytes = write_bytes
        self.keep_alive = keep_alive
        self.parser = BodyParser(engine)
        self._runs = runs

    async def __call__(self, parse: ParseFunction) -> Response:
        """Answer the current request, whose body `parse` understands."""
        return await self.answer(await self.parse_body(parse))

    async def answer(
        self,
        asked: Asked[Any],
        keep: Keep | None = None,
        maker: Maker | None = None,
        *held: AbstractContextManager[object],
    ) -> Response:
        """Answer the current request, which was understood.

        Args:
            asked: the request.
            keep: is given the whole answer, unless its client hung up before, or it failed; None to keep nothing.
            maker: of the stream, if the request may outlive its client; None for one that keeps what others keep.
            held: to be entered, and left when the request has ended, if it may outlive its client.

        Raises:
            CedeError: it is refused, or what its headers say of its fate cannot be understood.
        """
        current_request().generation_id = asked.request.id
        request = self.controlled(asked.request)
        if request.control.outlives_client:
            return await self._detachable(asked, request, keep, maker, held)
        return await (self._stream(asked, request, keep) if asked.stream else self._respond(asked, request, keep))

    async def long_response(self, value: object) -> Response:
        """Return the response that sends a value whole, as `json_encoding.iter_json` takes it.

        Raises:
            CedeError: more waits to be read than may.
        """
        return await paged_json_response(value, response_backlog(self.engine.unread), self.write_bytes)

    async def parse_body(self, parse: Callable[[bytes, ServedModel, int], T]) -> T:
        """Read the current request's body, and return what `parse` makes of it."""
        async with self.body() as raw:
            return await self.parser.parse(parse, raw)

    @asynccontextmanager
    async def body(self) -> AsyncIterator[bytes]:
        """The current request's body, which counts against what all bodies may take while the scope lasts.

        Raises:
            RateLimited: the limits of the client's key are reached.
            CedeError: the body is too large, or does not come.
        """
        current_request().claim_permit()
        body = current_request().body
        raw = await body.read(BODY_TIMEOUT)
        with body.reservation:
            yield raw

    def asked_by_client(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request as whoever sent the current HTTP request may ask it."""
        http_request = current_request()
        return replace(
            request,
            owner=http_request.owner,
            queue_share=http_request.queue_share,
            weight=http_request.weight,
            trace=http_request.trace,
        )

    def controlled(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request as the headers of the current HTTP request have it, where they say other than the body.

        Raises:
            RequestError: one of the headers `x-cede-…` cannot be understood, or what is said contradicts itself.
        """
        control = with_headers(request.control, current_request().headers.items())
        return checked(request if control is request.control else replace(request, control=control))

    def reservation(self, request: GenerationRequest) -> AbstractContextManager[None]:
        """Return the scope in which the tokens are set aside that a request may take of those of its client's key."""
        return current_request().reservation(request, self.engine.model.context_length)

    @asynccontextmanager
    async def open(self, request: GenerationRequest) -> AsyncIterator[Request]:
        """Run a request for whoever sent the current HTTP request, while the scope lasts.

        Raises:
            CedeError: it is refused, by the engine or by the limits of the client's key.
        """
        reason = current_request().disconnect_reason
        with self.reservation(request):
            async with self.engine.open_request(self.asked_by_client(request), disconnect_reason=reason) as opened:
                yield opened

    async def begin(self, request: GenerationRequest, maker: Maker, *held: AbstractContextManager[object]) -> Run:
        """Begin a request that may outlive whoever sent the current HTTP request, and who is its first reader.

        Args:
            request: which says so.
            maker: of its answer.
            held: to be entered now, and left when the request has ended.

        Raises:
            CedeError: it is refused.
        """
        if self._runs is None:
            raise RequestError(
                "'cede.on_disconnect' is not supported by this server.",
                param="cede.on_disconnect",
                code="unsupported_parameter",
            )
        reader = current_request().resources.enter_context(ExitStack())
        with current_request().hand_over_permit() as place:
            for scope in (self.reservation(request), *held):
                place.enter_context(scope)
            return await self._runs.start(self.asked_by_client(request), maker, place, reader)

    async def show(self, run: Run) -> Response:
        """Return the response that reads a request to its end, for the client who is its reader already."""
        if run.streamed:
            return attached(run, -1, self.write_bytes, reading=True)
        await run.ended.wait()
        return await whole(run, self.engine.unread, self.write_bytes)

    async def _detachable(
        self,
        asked: Asked[Any],
        request: GenerationRequest,
        keep: Keep | None,
        maker: Maker | None,
        held: Sequence[AbstractContextManager[object]],
    ) -> Response:
        if not asked.stream:

            async def finish(response: JsonObject) -> bytes:
                return await encode_json(response if keep is None else await keep(response))

            maker = WholeMaker(partial(asked.formatter, self.write_bytes), finish)
        elif maker is None:
            formatter = asked.formatter(None if keep is None else self.write_bytes)
            if keep is not None:
                copy = self.engine.unread.backlog(f"copy of {request.id}", gathering=True, request_id=request.id)
                formatter.set_size, copy.on_cut = copy.set_size, formatter.cut
                held = (*held, copy)
            maker = StreamMaker(formatter, self.keep_alive, partial(_at_end, formatter, keep))
        return await self.show(await self.begin(request, maker, *held))

    async def _stream(self, asked: Asked[Any], request: GenerationRequest, keep: Keep | None) -> Response:
        """Open the request and return the response that streams it.  What opening raises is an ordinary error."""
        resources = current_request().resources
        formatter = asked.formatter(None if keep is None else self.write_bytes)
        backlog = None if keep is None else response_backlog(self.engine.unread, formatter.holds)
        running = await resources.enter_async_context(AsyncExitStack())  # which ends before what is held for the end
        opened = await running.enter_async_context(self.open(request))

        def on_cut(error: CedeError) -> None:
            formatter.cut(error)
            if formatter.needs_whole:
                opened.cancel(CancelReason.STALLED_READER)

        if backlog is not None:
            formatter.set_size, backlog.on_cut = backlog.set_size, on_cut

        async def leave() -> None:
            await running.aclose()
            await _at_end(formatter, keep)
            await resources.aclose()

        body = EventStream(opened, formatter, self.keep_alive, leave, self.write_bytes, formatter.opening())
        return Response(body, headers=dict(formatter.headers), content_type=formatter.content_type)

    async def _respond(self, asked: Asked[Any], request: GenerationRequest, keep: Keep | None) -> Response:
        """Run the request to its end and return the whole response.  What it raises is an ordinary error."""
        response, backlog = await self.collect(request, partial(asked.formatter, self.write_bytes))
        answer = response if keep is None else await keep(response)
        return await paged_json_response(answer, backlog, self.write_bytes)

    async def collect(
        self, asked: GenerationRequest, begin: Callable[[], EventCollector]
    ) -> tuple[JsonObject, Backlog]:
        """Run a request to its end, and return what a collector made of it and the backlog that holds it.

        Args:
            asked: of the engine.
            begin: returns a fresh collector.

        Raises:
            CedeError: the request was refused, or ended with it.
        """
        backlog = response_backlog(self.engine.unread, "request")
        async with self.open(asked) as request:
            return await collect(request, begin, backlog), backlog


async def _at_end(formatter: Formatter, keep: Keep | None) -> None:
    """Keep the answer that was streamed, before the end of the stream is written."""
    if keep is not None and formatter.is_whole:
        formatter.came_out(await keep(formatter.result()))
