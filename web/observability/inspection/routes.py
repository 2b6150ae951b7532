"""The routes that look at the engine, and the one that cancels."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import trio
from quart import request as query

from runtime.errors import NotFound, RequestError
from web.bodies.errors.problem import Problem
from web.bodies.query import number
from web.bodies.responses import json_response, paged_json_response, response_backlog
from web.generation.openai_format.errors import error_object
from web.http.asgi import current_request
from web.observability.inspection.answers import (
    Cancelled,
    Healthy,
    ReceiptList,
    RequestList,
    SlotList,
    Statistics,
    Unhealthy,
    counts,
)
from web.observability.inspection.visible import ids_shown, runs_shown, shown, slots_shown
from web.openapi.operations import LISTS, Parameter, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quart_trio.wrappers import TrioResponse as Response

    from actors.core.receipts import Receipt
    from actors.diagnostics.loop_watch import LoopWatch
    from actors.engine import Engine
    from web.openapi.operations import Api
    from web.storage.detached.runs import Runs

MAX_WAIT = 60
"""Seconds for which a request for receipts may wait for the end of what they are of."""


def add_routes(api: Api, engine: Engine, write_bytes: int, watch: LoopWatch | None, runs: Runs | None = None) -> None:
    """Add the routes to an API.

    Args:
        api: to be extended.
        engine: to be looked at.
        write_bytes: of one write to a connection.
        watch: of the event loop; None where it is not watched.
        runs: the requests that may outlive their clients; None where there are none.
    """

    async def long_response(answer: Mapping[str, object]) -> Response:
        return await paged_json_response(answer, response_backlog(engine.unread), write_bytes)

    @api.get("/health", {200: Reply.json(Healthy, "It does."), 503: Reply.json(Unhealthy, "It does not.")}, open=True)
    async def health() -> Response:
        """Check whether the server serves."""
        if (reason := engine.health()) is None:
            return json_response(Healthy(status="ok"))
        problem = Problem(reason, "unavailable_error", 503, code="unhealthy")
        current_request().problem = problem.message
        answer = Unhealthy(status="unavailable", error=error_object(problem)["error"])
        return json_response(answer, problem.status)

    @api.get("/slots", {200: Reply.json(SlotList)}, LISTS)
    async def slots() -> Response:
        """List the slots: what each is doing, and how much KV is in it."""
        return await long_response(SlotList(slots=slots_shown(engine, current_request().key)))

    @api.get(
        "/v1/receipts",
        {200: Reply.json(ReceiptList)},
        LISTS,
        parameters=(
            Parameter("limit", "At most so many.", {"type": "integer", "minimum": 0, "exclusiveMaximum": 10**9}),
            Parameter("request_id", "Of this request only."),
            Parameter(
                "wait",
                "With `request_id`: wait for that request's end, at most so many seconds.",
                {"type": "integer", "minimum": 0, "maximum": MAX_WAIT},
            ),
        ),
    )
    async def list_receipts() -> Response:
        """List the receipts, which say what each cancel cost, the newest first."""
        limit, request_id = _limit(), query.args.get("request_id")
        await _wait_ended(engine, request_id, number("wait", 0, least=0, most=MAX_WAIT))
        return await long_response(ReceiptList(data=islice(_receipts_shown(engine, request_id), limit)))

    @api.get("/v1/statistics", {200: Reply.json(Statistics)})
    async def statistics() -> Response:
        """Get counts since the start, and what is held now."""
        tasks = trio.lowlevel.current_statistics().tasks_living
        answer = Statistics(**counts(engine, runs), tasks=tasks)
        if watch is not None:
            answer["loop"] = watch.statistics()
        return json_response(answer)

    _add_request_routes(api, engine, write_bytes, runs)


def _add_request_routes(api: Api, engine: Engine, write_bytes: int, runs: Runs | None) -> None:
    @api.get("/v1/requests", {200: Reply.json(RequestList)}, LISTS)
    async def list_requests() -> Response:
        """List the live requests, queued ones too."""
        key = current_request().key
        detachable = (run.status() for run in runs_shown(runs, key))
        answer = RequestList(data=shown(engine.requests(), key), detachable=detachable)
        return await paged_json_response(answer, response_backlog(engine.unread), write_bytes)

    @api.delete(
        "/v1/requests/<request_id>",
        {200: Reply.json(Cancelled)},
        {404},
        parameters=(Parameter("request_id", "The response's id, also in its `x-request-id`.", place="path"),),
    )
    async def cancel_request(request_id: str) -> Response:
        """Cancel exactly this request; drop the answer of one that has ended and is kept.

        One that is somebody else's is not told of.
        """
        key = current_request().key
        found = request_id in ids_shown(engine, key) and engine.cancel(request_id)
        if not found and runs is not None:
            found = runs.drop(request_id, key)
        if not found:
            message = f"There is no live request '{request_id}'."
            raise NotFound(message, param="request_id", code="request_not_found")
        return json_response(Cancelled(id=request_id, cancelled=True))


async def _wait_ended(engine: Engine, request_id: str | None, seconds: float) -> None:
    """Return once that request has ended, if it is for the client to see, or after so many seconds."""
    if request_id is not None and request_id in ids_shown(engine, current_request().key):
        with trio.move_on_after(seconds):
            await engine.wait_ended(request_id)


def _receipts_shown(engine: Engine, request_id: str | None) -> Iterator[Receipt]:
    """Yield the receipts, the newest first; of one request, if its id is given."""
    found = shown(engine.receipts(), current_request().key)
    return found if request_id is None else (receipt for receipt in found if receipt.request_id == request_id)


def _limit(default: int = 100) -> int:
    """Return the `limit` of the query string.  Raises RequestError."""
    given = query.args.get("limit")
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise RequestError("Invalid 'limit': it should be a non-negative integer.", param="limit")
    return int(given)
