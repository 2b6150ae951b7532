"""The routes by which clients come back to their requests.  What another key asked is not there for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import trio
from quart_trio.wrappers import TrioResponse as Response
from typing_extensions import TypedDict

from runtime.errors import NotFound, RequestError
from web.bodies.query import number
from web.bodies.responses import json_response
from web.http.asgi import current_request
from web.openapi.operations import EVENTS, JSON, LISTS, Parameter, Reply
from web.storage.detached.attaching import attached, whole

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.openapi.operations import Api
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs

LAST_EVENT = "Last-Event-ID"
MAX_WAIT = 60
"""Seconds for which a client may wait for an answer in one request."""

KNOWN = (
    Parameter(
        "after",
        "The number of the last event that the client knows; -1 for none, as without it.",
        {"type": "integer", "minimum": -1, "maximum": 10**9},
    ),
    Parameter(LAST_EVENT, "The same, as browsers say it; it counts before `after`.", place="header"),
)
WAIT = Parameter(
    "wait",
    "Wait for the answer, at most so many seconds.",
    {"type": "integer", "minimum": 0, "maximum": MAX_WAIT},
)


class Unfinished(TypedDict):
    """The answer is not there yet."""

    id: str
    status: Literal["in_progress"]


def add_routes(api: Api, engine: Engine, runs: Runs | None, write_bytes: int) -> None:
    """Add the routes to an API.

    Args:
        api: to be extended.
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

    @api.get(
        "/v1/requests/<request_id>/stream",
        {
            200: Reply(
                "The rest of the stream, in the words of the API that was asked.",
                {EVENTS: None, "application/x-ndjson": None},
            ),
            204: Reply("The client knows all of it, and nothing follows."),
        },
        LISTS | {404},
        parameters=KNOWN,
    )
    async def attach_to_request(request_id: str) -> Response:
        """Attach to the stream of a request that outlives its clients, from any of its events on."""
        run = find(request_id)
        after = _known()
        if not run.streamed:
            message = "This request was asked without 'stream': its answer is at '/result'."
            raise RequestError(message, param="request_id", code="not_a_stream")
        if run.log.ended and after + 1 >= len(run.log):
            return Response(b"", 204)
        return attached(run, after, write_bytes)

    @api.get(
        "/v1/requests/<request_id>/result",
        {
            200: Reply("The answer, in the words of the API that was asked.", {JSON: None}),
            202: Reply.json(Unfinished, "It is not there yet."),
        },
        LISTS | {404, 429, 504},
        parameters=(WAIT,),
    )
    async def get_request_result(request_id: str) -> Response:
        """Get the answer of a request that outlives its client and was asked without `stream`."""
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
