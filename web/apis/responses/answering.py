"""The way of a request for a response through the server: read with what it goes on with, answered, and stored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.conversion import (
    check_state,
    count_input_tokens,
    most_history,
    prepare,
    read_body,
    read_prompt_body,
)
from web.apis.responses.input.items import MAX_ITEMS
from web.apis.responses.stored.archive import no_history, store_ended
from web.apis.responses.stored.making import Making
from web.bodies.responses import json_response
from web.generation.passed_over import IgnoredFields
from web.http.asgi import current_request
from web.storage.detached.attaching import attached
from web.storage.objects import Kind

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from runtime.loading.served import ServedModel
    from web.apis.responses.answers import InputTokens
    from web.apis.responses.conversion import History
    from web.apis.responses.input.schemas import PromptBody
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.stored.conversations import ConversationLease
    from web.apis.responses.stored.state import State
    from web.generation.asked import Asked
    from web.generation.responder import Responder


class ResponseHandlers:
    """The handlers of `POST /v1/responses`, and of those that count instead.

    A response is answered as every other answer is; at its end it is stored.

    Args:
        responder: opens the requests.
        state: where responses are stored, and run in the background; None where they are not.
    """

    def __init__(self, responder: Responder, state: State | None) -> None:
        self._responder = responder
        self._state = state
        self._archive = None if state is None else state.archive
        self._ignored = IgnoredFields()

    async def create(self) -> Response:
        """Answer the current request."""
        parser = self._responder.parser
        async with self._responder.body() as raw:
            body = await parser.parse(read_body, raw)
            check_state(body)
            turn = self._turn(body)
            history = await self._history(body)

            def prepared(_: bytes, model: ServedModel, __: int) -> Asked[ResponseOptions]:
                return prepare(body, history, model, can_store=self._state is not None, ignored=self._ignored)

            parsed = await parser.parse(prepared, raw, size=len(raw) + history.size)
        parsed = replace(parsed, request=self._responder.asked_by_client(parsed.request))
        if parsed.options.background:
            return await self._begin(parsed, turn)
        maker = Making(parsed, self._archive, self._responder.keep_alive, turn) if parsed.stream else None
        held = () if turn is None else (turn,)
        return await self._responder.answer(parsed, partial(store_ended, self._archive, parsed, turn), maker, *held)

    async def count(self) -> Response:
        """Answer the current request with the number of its prompt's tokens."""
        parser = self._responder.parser
        async with self._responder.body() as raw:
            body = await parser.parse(read_prompt_body, raw)
            check_state(body)
            history = await self._history(body)

            def counted(_: bytes, model: ServedModel, __: int) -> InputTokens:
                return count_input_tokens(body, history, model)

            tokens = await parser.parse(counted, raw, size=len(raw) + history.size)
        return json_response(tokens)

    def _turn(self, body: PromptBody) -> ConversationLease | None:
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
        before = await self._state.store.before(Kind.CONVERSATION, body.conversation_id, owner, MAX_ITEMS, most_bytes)
        return replace(history, before=before, is_conversation=True)

    async def _begin(self, parsed: Asked[ResponseOptions], turn: ConversationLease | None) -> Response:
        """Begin a response in the background."""
        parsed = replace(parsed, request=self._responder.controlled(parsed.request))
        current_request().generation_id = parsed.request.id
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
        with current_request().hand_over_permit() as place:
            place.enter_context(self._responder.reservation(parsed.request))
            if turn is not None:
                place.enter_context(turn)
            run, response = await self._state.background.start(parsed, place, turn)
        if parsed.stream:
            return attached(run, -1, self._responder.write_bytes)
        return await self._responder.long_response(response)
