"""The routes by which clients come back to their requests.  What another key asked is not there for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import NotFound, RequestError
from web.bodies.json_response import json_response
from web.bodies.query import number
from web.http.asgi import current_request
from web.storage.detached.answers import Unfinished
from web.storage.detached.attaching import attached, whole
from web.storage.detached.operations import MAX_WAIT

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.http.asgi import ScopedApp
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs

LAST_EVENT = "Last-Event-ID"


def add_routes(app: ScopedApp, engine: Engine, runs: Runs | None, write_bytes: int) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        engine: whose bound on unread answers holds here, too.
        runs: the requests that may outlive their clients; None where there are none.
        write_bytes: of one write to a connection.
    """

    def find(request_id: str) -> Run:
        run = None if runs is None else runs.find(request_id, current_request().owner)
        if run is None:
            message = f"There is no request '{request_id}' that outlives its client, or its answer is kept no longer."
            raise NotFound(message, param="request_id", code="request_not_found")
        return run

    @app.get("/v1/requests/<request_id>/stream")
    async def attach_to_request(request_id: str) -> Response:
        run = find(request_id)
        after = _known()
        if not run.streamed:
            message = "This request was asked without 'stream': its answer is at '/result'."
            raise RequestError(message, param="request_id", code="not_a_stream")
        if run.log.ended and after + 1 >= len(run.log):
            return Response(b"", 204)
        return attached(run, after, write_bytes)

    @app.get("/v1/requests/<request_id>/result")
    async def get_request_result(request_id: str) -> Response:
        run = find(request_id)
        if run.streamed:
            message = "This request was asked with 'stream': its events are at '/stream'."
            raise RequestError(message, param="request_id", code="not_whole")
        with run.reading(), trio.move_on_after(number("wait", 0, least=0, most=MAX_WAIT)):
            await run.ended.wait()
        if not run.ended.is_set():
            return json_response(Unfinished(id=run.id, status="in_progress"), 202)
        return await whole(run, engine.unread, write_bytes)


def _known() -> int:
    """Return the number of the last event that the client knows; -1 for none."""
    last = current_request().headers.get(LAST_EVENT, "").strip()
    if not last:
        return number("after", -1, least=-1)
    if not (last.isascii() and last.isdigit() and len(last) < 10):
        raise RequestError(f"Invalid '{LAST_EVENT}': it should be a whole number.", param=LAST_EVENT)
    return int(last)
