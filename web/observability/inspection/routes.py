"""The routes that look at the engine, and the one that cancels."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import trio
from quart import request as query

from runtime.errors import NotFound, RequestError
from web.bodies.errors.problem import Problem
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.bodies.query import number
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quart_trio.wrappers import TrioResponse as Response

    from actors.core.receipts import Receipt
    from actors.diagnostics.loop_watch import LoopWatch
    from actors.engine import Engine
    from web.http.asgi import ScopedApp
    from web.storage.detached.runs import Runs

MAX_WAIT = 60
"""Seconds for which a request for receipts may wait for the end of what they are of."""


def add_routes(
    app: ScopedApp, engine: Engine, write_bytes: int, watch: LoopWatch | None, runs: Runs | None = None
) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        engine: to be looked at.
        write_bytes: of one write to a connection.
        watch: of the event loop; None where it is not watched.
        runs: the requests that may outlive their clients; None where there are none.
    """

    async def long_response(answer: Mapping[str, object]) -> Response:
        return await paged_json_response(answer, response_backlog(engine.unread), write_bytes)

    @app.get("/health")
    async def health() -> Response:
        if (reason := engine.health()) is None:
            return json_response(Healthy(status="ok"))
        problem = Problem(reason, "unavailable_error", 503, code="unhealthy")
        current_request().problem = problem.message
        answer = Unhealthy(status="unavailable", error=error_object(problem)["error"])
        return json_response(answer, problem.status)

    @app.get("/slots")
    async def slots() -> Response:
        return await long_response(SlotList(slots=slots_shown(engine, current_request().key)))

    @app.get("/v1/receipts")
    async def receipts() -> Response:
        limit, request_id = _limit(), query.args.get("request_id")
        await _wait_ended(engine, request_id, number("wait", 0, least=0, most=MAX_WAIT))
        return await long_response(ReceiptList(data=islice(_receipts_shown(engine, request_id), limit)))

    @app.get("/v1/statistics")
    async def statistics() -> Response:
        tasks = trio.lowlevel.current_statistics().tasks_living
        answer = Statistics(**counts(engine, runs), tasks=tasks)
        if watch is not None:
            answer["loop"] = watch.statistics()
        return json_response(answer)

    _add_request_routes(app, engine, write_bytes, runs)


def _add_request_routes(app: ScopedApp, engine: Engine, write_bytes: int, runs: Runs | None) -> None:
    @app.get("/v1/requests")
    async def requests() -> Response:
        key = current_request().key
        detachable = (run.status() for run in runs_shown(runs, key))
        answer = RequestList(data=shown(engine.requests(), key), detachable=detachable)
        return await paged_json_response(answer, response_backlog(engine.unread), write_bytes)

    @app.delete("/v1/requests/<request_id>")
    async def cancel(request_id: str) -> Response:
        """Cancel a request, or drop the answer of one that is kept.  One that is somebody else's is not told of."""
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
