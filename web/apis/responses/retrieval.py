"""The routes of what is done with a response once there is one, of the current request's owner alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import trio

from runtime.errors import RequestError
from web.apis.responses.answers import DeletedResponse, Event, ItemList
from web.apis.responses.answers import Response as ResponseObject
from web.bodies.json_encoding import EncodedJson
from web.bodies.query import flag, number, page_asked
from web.bodies.responses import json_response
from web.http.asgi import current_request
from web.openapi.operations import LISTS, PAGES, Parameter, Reply
from web.storage.detached.attaching import attached
from web.storage.objects import Kind, ObjectNotFound, page_json

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.responses.stored.state import State
    from web.generation.responder import Responder
    from web.openapi.operations import Api

PATH = "/v1/responses"
STORED = LISTS | {404}


def add_stored_routes(api: Api, responder: Responder, state: State | None) -> None:
    """Add what shows, follows, cancels and deletes responses.

    Args:
        api: to be extended.
        responder: has the bounds on answers.
        state: where responses are; None where nothing is stored.
    """
    one, kind = f"{PATH}/<response_id>", Kind.RESPONSE

    def stored(response_id: str) -> tuple[State, str | None]:
        """Return where a response may be, and who asks."""
        if state is None:
            raise ObjectNotFound(kind, response_id)
        return state, current_request().owner

    @api.get(
        one,
        {200: Reply.generated(ResponseObject, Event)},
        STORED,
        parameters=(
            Parameter("stream", "Follow its events.", {"type": "boolean"}),
            Parameter("starting_after", "Number of the last event that is known.", {"type": "integer"}),
        ),
    )
    async def get_response(response_id: str) -> Response:
        """Get a stored response, or the events of one in the background."""
        found, owner = stored(response_id)
        if not flag("stream"):
            return await responder.long_response(EncodedJson((await found.store.get(kind, response_id, owner)).body))
        starting_after = number("starting_after", -1, least=-1)
        if (run := found.runs.find(response_id, owner)) is not None and run.streamed:
            return attached(run, starting_after, responder.write_bytes)
        await found.store.get(kind, response_id, owner)
        raise RequestError(
            "The events of this response are not kept: it did not run in the background, or it ended a while ago.",
            param="stream",
            code="stream_expired",
        )

    @api.delete(one, {200: Reply.json(DeletedResponse)}, STORED)
    async def delete_response(response_id: str) -> Response:
        """Delete a stored response; one that runs is cancelled."""
        found, owner = stored(response_id)
        if (run := found.runs.find(response_id, owner)) is not None:
            await found.runs.forget(run)
        await found.store.delete(kind, response_id, owner)
        return json_response(DeletedResponse(id=response_id, object="response", deleted=True))

    @api.post(f"{one}/cancel", {200: Reply.json(ResponseObject)}, STORED)
    async def cancel_response(response_id: str) -> Response:
        """Cancel a response in the background."""
        return await responder.long_response(EncodedJson(await _cancelled(response_id, *stored(response_id))))

    @api.get(f"{one}/input_items", {200: Reply.json(ItemList)}, STORED, parameters=PAGES["desc"])
    async def list_input_items(response_id: str) -> Response:
        """List the items that a response was made from, a page at a time."""
        (found, owner), asked = stored(response_id), page_asked("desc")
        return await responder.long_response(page_json(await found.store.page(kind, response_id, owner, asked)))


async def _cancelled(response_id: str, state: State, owner: str | None) -> bytes:
    """Cancel a response in the background, unless it has ended, and return it."""
    response = (await state.store.get(Kind.RESPONSE, response_id, owner)).body
    if not (await trio.to_thread.run_sync(json.loads, response))["background"]:
        raise RequestError(
            "Only responses in the background can be cancelled; to cancel another, hang up.", param="response_id"
        )
    if (run := state.runs.find(response_id, owner)) is not None:
        await state.runs.cancel(run)
        response = (await state.store.get(Kind.RESPONSE, response_id, owner)).body
    return response
