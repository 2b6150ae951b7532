"""The way of a request for a response through the server: read, answered with a stream or whole, and stored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from web.bodies.event_stream import CONTENT_TYPE, HEADERS, EventStream
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.generation.ignored import IgnoredFields
from web.http.asgi import current_request
from web.responses.conversion import count_input_tokens, prepare, read_body, read_prompt_body
from web.responses.output.collector import ResponseCollector
from web.responses.output.writer import ResponseWriter
from web.responses.stored.archive import no_history
from web.responses.stored.event_log import AttachedStream

if TYPE_CHECKING:
    from runtime.errors import CedeError
    from runtime.loading.served import ServedModel
    from web.generation.responder import Responder
    from web.responses.conversion import History, ParsedResponse
    from web.responses.input.schemas import PromptBody
    from web.responses.stored.background import Run
    from web.responses.stored.state import State


class ResponseMaker:
    """Makes responses: the handler of `POST /v1/responses`, and of those that count instead.

    Args:
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """

    def __init__(self, responder: Responder, state: State | None) -> None:
        self._responder = responder
        self._state = state
        self._ignored = IgnoredFields()

    async def create(self) -> Response:
        """Answer the current request."""
        parser = self._responder.parser
        async with self._responder.body() as raw:
            body = await parser.parse(read_body, raw)
            history = await self._history(body)

            def prepared(_: bytes, model: ServedModel, __: int) -> ParsedResponse:
                return prepare(body, history, model, can_store=self._state is not None, ignored=self._ignored)

            parsed = await parser.parse(prepared, raw, size=len(raw) + history.size)
        parsed = replace(parsed, request=self._responder.asked_by_client(parsed.request))
        current_request().generation_id = parsed.request.id
        if parsed.background:
            return await self._begin(parsed)
        return await (self._stream(parsed) if parsed.stream else self._respond(parsed))

    async def count(self) -> Response:
        """Answer the current request with the number of its prompt's tokens."""
        parser = self._responder.parser
        async with self._responder.body() as raw:
            body = await parser.parse(read_prompt_body, raw)
            history = await self._history(body)

            def counted(_: bytes, model: ServedModel, __: int) -> int:
                return count_input_tokens(body, history, model)

            tokens = await parser.parse(counted, raw, size=len(raw) + history.size)
        return json_response({"object": "response.input_tokens", "input_tokens": tokens})

    async def _history(self, body: PromptBody) -> History:
        if self._state is None:
            return no_history(body)
        return await self._state.archive.history(body, current_request().owner)

    # --- with its client ----------------------------------------------------------------------------------------------

    async def _stream(self, parsed: ParsedResponse) -> Response:
        """Open the request and return the response that streams it.  What opening raises is an ordinary error."""
        resources = current_request().resources
        responder = self._responder
        held = response_backlog(responder.engine.unread, f"text of {parsed.request.id}")
        request = await resources.enter_async_context(responder.open(parsed.request))
        writer = ResponseWriter(parsed.options, held.hold)

        def on_cut(error: CedeError) -> None:
            writer.cut(error)
            request.cancel(CancelReason.STALLED_READER)

        async def leave() -> None:
            await resources.aclose()
            if parsed.store:
                writer.events.stored = await self._save(parsed, writer.events.response())

        held.on_cut = on_cut
        body = EventStream(request, writer, responder.keep_alive, leave, responder.write_bytes, writer.opening())
        return Response(body, headers=dict(writer.headers), content_type=writer.content_type)

    async def _respond(self, parsed: ParsedResponse) -> Response:
        """Run the request to its end and return the whole response.  What it raises is an ordinary error."""
        response, backlog = await self._responder.collect(parsed.request, partial(ResponseCollector, parsed.options))
        if parsed.store:
            response["store"] = await self._save(parsed, response)
        return await paged_json_response(response, backlog, self._responder.write_bytes)

    async def _save(self, parsed: ParsedResponse, response: dict[str, object]) -> bool:
        return self._state is not None and await self._state.archive.save(parsed, response)

    # --- without one --------------------------------------------------------------------------------------------------

    async def _begin(self, parsed: ParsedResponse) -> Response:
        """Begin a response in the background."""
        if self._state is None:
            raise RequestError(
                "'background' is not supported by this server.", param="background", code="unsupported_parameter"
            )
        with current_request().hand_over_place() as place:
            place.enter_context(self._responder.reservation(parsed.request))
            run, response = await self._state.background.start(parsed, place)
        if parsed.stream:
            return attach(run, -1, self._responder.write_bytes)
        backlog = response_backlog(self._responder.engine.unread)
        return await paged_json_response(response, backlog, self._responder.write_bytes)


def attach(run: Run, starting_after: int, write_bytes: int) -> Response:
    """Return a response that streams the events of a response in the background.

    Args:
        run: of which the events are there.
        starting_after: number of the last event that the client knows; -1 for none.
        write_bytes: of one write.
    """
    body = AttachedStream(run.log, starting_after + 1, write_bytes)
    return Response(body, headers=HEADERS, content_type=CONTENT_TYPE)
