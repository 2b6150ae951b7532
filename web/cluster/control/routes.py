"""The routes of the control address: what the workers' own addresses have for each, here of all workers.

Whatever is told says of which worker it is.  Workers that did not answer in time are named (`unreachable`), so that
nobody takes what is missing for what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from quart import request as query

from actors.generating.unread import Unread
from runtime.errors import NotFound, RequestError, Unavailable
from web.bodies.errors.handlers import install_error_handlers
from web.bodies.errors.shapes import ErrorShapes
from web.bodies.json_response import json_response
from web.bodies.query import number
from web.cluster.control import merging
from web.cluster.control.answers import (
    CancelledAt,
    GroupEndedAtAll,
    GroupsOfAll,
    ReceiptsOfAll,
    RequestsOfAll,
    SlotsOfAll,
    StatisticsOfAll,
)
from web.cluster.control.feed.follower import ToldOf
from web.cluster.control.feed.routes import add_routes as add_feed_routes
from web.cluster.control.operations import CONTROL
from web.cluster.control.questions import Question, Workers
from web.generation.openai_format.errors import OpenAIErrors
from web.http.asgi import ScopedApp
from web.http.body_budget import BodyBudget
from web.observability.inspection.routes import MAX_WAIT
from web.observability.page.files import CLUSTER_VIEWS
from web.observability.page.operations import PAGE
from web.observability.page.routes import add_routes as add_page_routes
from web.openapi.routes import add_routes as add_document_routes
from web.process.limits import Limits
from web.serving.app import apply_browser_policy

if TYPE_CHECKING:
    import trio
    from quart_trio.wrappers import TrioResponse as Response

    from web.http.browser_policy import BrowserPolicy


APIS = (CONTROL, PAGE)
"""What the OpenAPI document of this address says."""

DEFAULT_RECEIPTS = 100


class AllWorkers(Workers, ToldOf, Protocol):
    """All workers that discovery knows: to be asked, and followed."""


def control_app(workers: AllWorkers, stop: trio.Event, policy: BrowserPolicy) -> ScopedApp:
    """Make the application of the control address.

    Args:
        workers: all of them.
        stop: whoever serves it is to end, and so are all streams.
        policy: what web pages may ask.
    """
    app = ScopedApp("cede-control", static_folder=None)
    limits = Limits()
    app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
    app.bodies = BodyBudget(limits.bodies_bytes)
    install_error_handlers(app, ErrorShapes(OpenAIErrors(), ()))
    apply_browser_policy(app, policy)
    _add_lists(app, workers)
    _add_ends(app, workers)
    add_feed_routes(app, workers, stop, limits.write_bytes)
    unread = Unread()
    add_page_routes(app, unread, limits.write_bytes, CLUSTER_VIEWS)
    add_document_routes(app, unread, APIS, keyed=False, write_bytes=limits.write_bytes)
    return app


def _add_lists(app: ScopedApp, workers: Workers) -> None:
    @app.get("/v1/requests")
    async def requests() -> Response:
        answers, silent = await workers.ask(Question.REQUESTS)
        return json_response(RequestsOfAll(data=merging.oldest_first(answers), unreachable=silent))

    @app.get("/v1/receipts")
    async def receipts() -> Response:
        request_id, limit = query.args.get("request_id"), number("limit", DEFAULT_RECEIPTS, least=0)
        names = None if request_id is None else merging.names_of(request_id)
        wait = number("wait", 0, least=0, most=MAX_WAIT)
        answers, silent = await workers.ask(Question.RECEIPTS, limit=limit, request_ids=names, wait=wait)
        return json_response(ReceiptsOfAll(data=merging.newest_first(answers, limit), unreachable=silent))

    @app.get("/slots")
    async def slots() -> Response:
        answers, silent = await workers.ask(Question.SLOTS)
        return json_response(SlotsOfAll(slots=merging.all_of(answers), unreachable=silent))

    @app.get("/v1/statistics")
    async def statistics() -> Response:
        answers, silent = await workers.ask(Question.STATISTICS)
        return json_response(StatisticsOfAll(data=merging.statistics(answers), unreachable=silent))

    @app.get("/v1/groups")
    async def groups() -> Response:
        answers, silent = await workers.ask(Question.GROUPS)
        return json_response(GroupsOfAll(data=merging.groups(answers), unreachable=silent))


def _add_ends(app: ScopedApp, workers: Workers) -> None:
    @app.delete("/v1/groups/<path:group>")
    async def end_group(group: str) -> Response:
        answers, silent = await workers.ask(Question.END_GROUP, name=group)
        ended = [request_id for _, ids in sorted(answers.items()) for request_id in ids]
        return json_response(GroupEndedAtAll(group=group, cancelled=ended, unreachable=silent))

    @app.delete("/v1/requests/<request_id>")
    async def cancel(request_id: str) -> Response:
        """Cancel exactly one request: it is looked for at all workers, and ended at the one that has it."""
        answers, silent = await workers.ask(Question.REQUESTS, worker=_worker())
        found = merging.holders(answers, request_id)
        if len(found) > 1:
            names = ", ".join(worker for worker, _ in found)
            message = f"Several workers have a live request '{request_id}': '?worker=' says which ({names})."
            raise RequestError(message, param="worker", code="ambiguous_request")
        for worker, name in found:
            ended, _ = await workers.ask(Question.CANCEL, worker=worker, id=name)
            if ended.get(worker):
                return json_response(CancelledAt(id=request_id, cancelled=True, worker=worker, unreachable=silent))
        if silent:
            raise Unavailable(f"It cannot be said whether the request lives: no answer from {', '.join(silent)}.")
        raise NotFound(f"There is no live request '{request_id}'.", param="request_id", code="request_not_found")


def _worker() -> str | None:
    """Return the worker that the query names.  Raises RequestError."""
    given = query.args.get("worker")
    if given is None:
        return None
    try:
        number_of_worker = int(given, 16)
    except ValueError:
        number_of_worker = 1 << 64
    if not 0 <= number_of_worker < 1 << 64:
        raise RequestError("Invalid 'worker': it should be a worker's id, 16 hexadecimal digits.", param="worker")
    return f"{number_of_worker:016x}"
