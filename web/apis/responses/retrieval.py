"""The handlers of what is done with a response once there is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import trio

from runtime.errors import RequestError
from web.apis.responses.stored.archive import ResponseNotFound
from web.bodies.json_encoding import EncodedJson
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.bodies.query import flag, number, page_asked
from web.http.asgi import current_request
from web.storage.detached.attaching import attached
from web.storage.items import page_json

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.apis.responses.answers import DeletedResponse
    from web.apis.responses.stored.state import State


class StoredResponses:
    """Shows, follows, cancels and deletes responses, of the current request's owner alone.

    Args:
        engine: whose bound on unread answers holds here, too.
        state: where they are; None where nothing is stored.
        write_bytes: of one write to a connection.
    """

    def __init__(self, engine: Engine, state: State | None, write_bytes: int) -> None:
        self._engine = engine
        self._state = state
        self._write_bytes = write_bytes

    async def get(self, response_id: str) -> Response:
        """Answer with a response, or with its events."""
        state = self._stored(response_id)
        owner = current_request().owner
        if not flag("stream"):
            return await self._long(EncodedJson(await state.archive.load(response_id, owner)))
        starting_after = number("starting_after", -1, least=-1)
        if (run := state.runs.find(response_id, owner)) is not None and run.streamed:
            return attached(run, starting_after, self._write_bytes)
        await state.archive.load(response_id, owner)
        raise RequestError(
            "The events of this response are not kept: it did not run in the background, or it ended a while ago.",
            param="stream",
            code="stream_expired",
        )

    async def delete(self, response_id: str) -> Response:
        """Delete a response; one that runs is cancelled."""
        state = self._stored(response_id)
        owner = current_request().owner
        if (run := state.runs.find(response_id, owner)) is not None:
            await state.runs.forget(run)
        await state.archive.delete(response_id, owner)
        deleted: DeletedResponse = {"id": response_id, "object": "response", "deleted": True}
        return json_response(deleted)

    async def cancel(self, response_id: str) -> Response:
        """Cancel a response in the background, unless it has ended, and answer with it."""
        state = self._stored(response_id)
        owner = current_request().owner
        response = await state.archive.load(response_id, owner)
        if not (await trio.to_thread.run_sync(json.loads, response))["background"]:
            raise RequestError(
                "Only responses in the background can be cancelled; to cancel another, hang up.", param="response_id"
            )
        if (run := state.runs.find(response_id, owner)) is not None:
            await state.runs.cancel(run)
            response = await state.archive.load(response_id, owner)
        return await self._long(EncodedJson(response))

    async def list_input_items(self, response_id: str) -> Response:
        """Answer with a page of what the model saw, but for the instructions."""
        state = self._stored(response_id)
        asked = page_asked("desc")
        return await self._long(page_json(await state.archive.items_seen(response_id, current_request().owner, asked)))

    def _stored(self, response_id: str) -> State:
        if self._state is None:
            raise ResponseNotFound(response_id)
        return self._state

    async def _long(self, value: object) -> Response:
        return await paged_json_response(value, response_backlog(self._engine.unread), self._write_bytes)
