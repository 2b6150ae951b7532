"""The way of a request for a response through the server: read, answered with a stream or whole, and stored."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quart_trio.wrappers import TrioResponse as Response

from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from web.bodies.event_stream import EventStream
from web.bodies.json_response import encode_json, json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.detached.attaching import attached
from web.detached.makers import WholeMaker
from web.generation.ignored import IgnoredFields
from web.http.asgi import current_request
from web.responses.conversion import check_state, count_input_tokens, most_history, prepare, read_body, read_prompt_body
from web.responses.output.collector import ResponseCollector
from web.responses.output.writer import ResponseWriter
from web.responses.stored.archive import no_history
from web.responses.stored.ending import store_ended
from web.responses.stored.making import Making

if TYPE_CHECKING:
    from runtime.errors import CedeError
    from runtime.loading.served import ServedModel
    from web.generation.responder import Responder
    from web.responses.conversion import History, ParsedResponse
    from web.responses.input.schemas import PromptBody
    from web.responses.stored.conversations import Turn
    from web.responses.stored.state import State

Json = dict[str, Any]


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
            check_state(body)
            turn = self._turn(body)
            history = await self._history(body)

            def prepared(_: bytes, model: ServedModel, __: int) -> ParsedResponse:
                return prepare(body, history, model, can_store=self._state is not None, ignored=self._ignored)

            parsed = await parser.parse(prepared, raw, size=len(raw) + history.size)
        asked = self._responder.controlled(self._responder.asked_by_client(parsed.request))
        parsed = replace(parsed, request=asked)
        current_request().generation_id = parsed.request.id
        if parsed.background:
            return await self._begin(parsed, turn)
        if asked.control.outlives_client:
            return await self._detachable(parsed, turn)
        return await (self._stream(parsed, turn) if parsed.stream else self._respond(parsed, turn))

    async def count(self) -> Response:
        """Answer the current request with the number of its prompt's tokens."""
        parser = self._responder.parser
        async with self._responder.body() as raw:
            body = await parser.parse(read_prompt_body, raw)
            check_state(body)
            history = await self._history(body)

            def counted(_: bytes, model: ServedModel, __: int) -> int:
                return count_input_tokens(body, history, model)

            tokens = await parser.parse(counted, raw, size=len(raw) + history.size)
        return json_response({"object": "response.input_tokens", "input_tokens": tokens})

    def _turn(self, body: PromptBody) -> Turn | None:
        """Hold the conversation that a body goes on with, until the response is sent; None where there is none.

        Raises:
            ConversationLocked: another response is being made from it.
        """
        if self._state is None or body.conversation_id is None:
            return None
        http_request = current_request()
        turn = self._state.conversations.turn(body.conversation_id, http_request.owner)
        return http_request.resources.enter_context(turn)

    async def _history(self, body: PromptBody) -> History:
        owner = current_request().owner
        if self._state is None:
            return no_history(body)
        most_bytes = most_history(self._responder.engine.model)
        history = await self._state.archive.history(body, owner, most_bytes)
        if body.conversation_id is None:
            return history
        before = await self._state.conversations.before(body.conversation_id, owner, most_bytes)
        return replace(history, before=before, is_conversation=True)

    # --- with its client ----------------------------------------------------------------------------------------------

    async def _stream(self, parsed: ParsedResponse, turn: Turn | None) -> Response:
        """Open the request and return the response that streams it.  What opening raises is an ordinary error."""
        resources = current_request().resources
        responder = self._responder
        held = response_backlog(responder.engine.unread, "text of")
        running = await resources.enter_async_context(AsyncExitStack())  # which ends before what is held for the end
        request = await running.enter_async_context(responder.open(parsed.request))
        writer = ResponseWriter(parsed.options, held.hold)

        def on_cut(error: CedeError) -> None:
            writer.cut(error)
            request.cancel(CancelReason.STALLED_READER)

        async def leave() -> None:
            await running.aclose()
            writer.events.outcome = await self._end(parsed, writer.events.response(), turn)
            await resources.aclose()

        held.on_cut = on_cut
        body = EventStream(request, writer, responder.keep_alive, leave, responder.write_bytes, writer.opening())
        return Response(body, headers=dict(writer.headers), content_type=writer.content_type)

    async def _respond(self, parsed: ParsedResponse, turn: Turn | None) -> Response:
        """Run the request to its end and return the whole response.  What it raises is an ordinary error."""
        response, backlog = await self._responder.collect(parsed.request, partial(ResponseCollector, parsed.options))
        response |= await self._end(parsed, response, turn)
        return await paged_json_response(response, backlog, self._responder.write_bytes)

    async def _end(self, parsed: ParsedResponse, response: Json, turn: Turn | None) -> Json:
        return await store_ended(None if self._state is None else self._state.archive, parsed, response, turn)

    async def _detachable(self, parsed: ParsedResponse, turn: Turn | None) -> Response:
        """Begin a response that may outlive its client, and return what shows it to the end."""
        archive = None if self._state is None else self._state.archive
        maker: Making | WholeMaker = Making(parsed, archive, self._responder.keep_alive, turn)
        if not parsed.stream:

            async def finish(response: Json) -> bytes:
                return await encode_json(response | await self._end(parsed, response, turn))

            maker = WholeMaker(partial(ResponseCollector, parsed.options), finish)
        held = () if turn is None else (turn,)
        return await self._responder.show(await self._responder.begin(parsed.request, maker, *held))

    # --- without one --------------------------------------------------------------------------------------------------

    async def _begin(self, parsed: ParsedResponse, turn: Turn | None) -> Response:
        """Begin a response in the background."""
        if self._state is None:
            raise RequestError(
                "'background' is not supported by this server.", param="background", code="unsupported_parameter"
            )
        control = parsed.request.control
        if control.on_disconnect == "finish_prefill" or control.grace_s is not None:
            raise RequestError(
                "'background' runs without its client: what a hang-up means is 'detach'.", param="cede.on_disconnect"
            )
        parsed = replace(parsed, request=replace(parsed.request, control=replace(control, on_disconnect="detach")))
        with current_request().hand_over_place() as place:
            place.enter_context(self._responder.reservation(parsed.request))
            if turn is not None:
                place.enter_context(turn)
            run, response = await self._state.background.start(parsed, place, turn)
        if parsed.stream:
            return attached(run, -1, self._responder.write_bytes)
        backlog = response_backlog(self._responder.engine.unread)
        return await paged_json_response(response, backlog, self._responder.write_bytes)
