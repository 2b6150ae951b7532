"""The routes of the control address: what the workers' own addresses have for each, here of all workers.

Whatever is told says of which worker it is.  Workers that did not answer in time are named (`unreachable`), so that
nobody takes what is missing for what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from quart import request as query

from actors.generating.unread import Unread
from actors.groups.request_groups import LiveGroup
from runtime.errors import NotFound, RequestError, Unavailable
from web.bodies.errors.handlers import install_error_handlers
from web.bodies.errors.problem import ErrorShapes
from web.bodies.query import number
from web.bodies.responses import json_response
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
from web.cluster.control.questions import Question, Workers, labelled
from web.generation.openai_format.errors import OPENAI_ERRORS, Error
from web.http.asgi import ScopedApp
from web.http.body_budget import BodyBudget
from web.observability.inspection.routes import MAX_WAIT
from web.observability.page.files import CLUSTER_VIEWS
from web.observability.page.routes import add_routes as add_page_routes
from web.openapi.operations import ANY_ROUTE, Api, Parameter, Reply
from web.openapi.routes import add_routes as add_document_routes
from web.process.limits import Limits
from web.serving.app import apply_browser_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio
    from quart_trio.wrappers import TrioResponse as Response

    from web.cluster.control.questions import Json
    from web.http.browser_policy import BrowserPolicy

DEFAULT_RECEIPTS = 100
LIMIT = {"type": "integer", "minimum": 0, "maximum": 10**9}
WAIT = {"type": "integer", "minimum": 0, "maximum": 60}
ERRORS = ANY_ROUTE - {401} | {400}
"""Nobody has to say who he is here."""


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
    install_error_handlers(app, ErrorShapes(OPENAI_ERRORS, ()))
    apply_browser_policy(app, policy)
    about = "What all workers of a cluster do, and the end of requests at whichever worker they are."
    api = Api(app, "Control", about, Error, ERRORS)
    _add_lists(api, workers)
    _add_ends(api, workers)
    add_feed_routes(api, workers, stop, limits.write_bytes)
    unread = Unread()
    add_page_routes(app, unread, limits.write_bytes, CLUSTER_VIEWS)
    add_document_routes(api, unread, keyed=False, write_bytes=limits.write_bytes)
    return app


def _add_lists(api: Api, workers: Workers) -> None:
    @api.get("/v1/requests", {200: Reply.json(RequestsOfAll)})
    async def list_requests() -> Response:
        """List the live requests of all workers."""
        answers, silent = await workers.ask(Question.REQUESTS)
        return json_response(RequestsOfAll(data=oldest_first(answers), unreachable=silent))

    @api.get(
        "/v1/receipts",
        {200: Reply.json(ReceiptsOfAll)},
        parameters=(
            Parameter("limit", "At most so many.", LIMIT),
            Parameter("request_id", "Of requests of this id only."),
            Parameter("wait", "With `request_id`: wait for their ends, at most so many seconds.", WAIT),
        ),
    )
    async def list_receipts() -> Response:
        """List the receipts, which say what each cancel cost, the newest first."""
        request_id, limit = query.args.get("request_id"), number("limit", DEFAULT_RECEIPTS, least=0)
        names = None if request_id is None else names_of(request_id)
        wait = number("wait", 0, least=0, most=MAX_WAIT)
        answers, silent = await workers.ask(Question.RECEIPTS, limit=limit, request_ids=names, wait=wait)
        return json_response(ReceiptsOfAll(data=newest_first(answers, limit), unreachable=silent))

    @api.get("/slots", {200: Reply.json(SlotsOfAll)})
    async def slots() -> Response:
        """List the slots of each worker, and what each is doing."""
        answers, silent = await workers.ask(Question.SLOTS)
        return json_response(SlotsOfAll(slots=all_of(answers), unreachable=silent))

    @api.get("/v1/statistics", {200: Reply.json(StatisticsOfAll)})
    async def statistics() -> Response:
        """Get counts of each worker since its start, and what it holds now."""
        answers, silent = await workers.ask(Question.STATISTICS)
        return json_response(StatisticsOfAll(data=statistics_of(answers), unreachable=silent))

    @api.get("/v1/groups", {200: Reply.json(GroupsOfAll)})
    async def list_groups() -> Response:
        """List the groups that have live requests at any worker."""
        answers, silent = await workers.ask(Question.GROUPS)
        return json_response(GroupsOfAll(data=groups_of(answers), unreachable=silent))


def _add_ends(api: Api, workers: Workers) -> None:
    @api.delete(
        "/v1/groups/<path:group>",
        {200: Reply.json(GroupEndedAtAll)},
        parameters=(Parameter("group", "As in the requests' `cede.group`; it may have slashes.", place="path"),),
    )
    async def end_group(group: str) -> Response:
        """Cancel all live requests of a group, and of the groups in it, at all workers."""
        answers, silent = await workers.ask(Question.END_GROUP, name=group)
        ended = [request_id for _, ids in sorted(answers.items()) for request_id in ids]
        return json_response(GroupEndedAtAll(group=group, cancelled=ended, unreachable=silent))

    @api.delete(
        "/v1/requests/<request_id>",
        {200: Reply.json(CancelledAt)},
        {404, 503},
        parameters=(
            Parameter("request_id", "As the worker knows it, or the answer's id.", place="path"),
            Parameter("worker", "The only one that is looked at: 16 hexadecimal digits."),
        ),
    )
    async def cancel_request(request_id: str) -> Response:
        """Cancel exactly this request, at the worker that has it."""
        answers, silent = await workers.ask(Question.REQUESTS, worker=_worker())
        found = holders(answers, request_id)
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


# --- one answer out of those of all workers; each thing says which worker it is of ------------------------------------

PREFIXES = ("chatcmpl-", "cmpl-", "resp_")
"""Of ids of the front door's answers, behind which stands the request's."""


def all_of(answers: Mapping[str, list[Json]]) -> list[Any]:
    """Return what all workers have, worker by worker; it is their JSON, and some may be of another version of cede."""
    return [value for worker, values in sorted(answers.items()) for value in labelled(worker, values)]


def oldest_first(answers: Mapping[str, list[Json]]) -> list[Any]:
    """Requests, by when they came."""
    return sorted(all_of(answers), key=lambda request: request["created"])


def newest_first(answers: Mapping[str, list[Json]], limit: int) -> list[Any]:
    """Receipts, at most so many."""
    return sorted(all_of(answers), key=lambda receipt: -receipt["detected_at"])[:limit]


def groups_of(answers: Mapping[str, list[Json]]) -> list[LiveGroup]:
    """Groups by their names, each with its requests on all workers."""
    found: dict[str, list[str]] = {}
    for _, values in sorted(answers.items()):
        for group in values:
            found.setdefault(group["name"], []).extend(group["requests"])
    return [LiveGroup(name, None, tuple(ids)) for name, ids in found.items()]


def holders(answers: Mapping[str, list[Json]], request_id: str) -> list[tuple[str, str]]:
    """Return who has a live request of that id: workers, each with the id that it knows it by.

    The front door's answers call a request by a longer id than its worker does; that is looked for only where nobody
    has the one that was given.
    """
    for name in names_of(request_id):
        found = [(worker, name) for worker, live in sorted(answers.items()) if any(one["id"] == name for one in live)]
        if found:
            return found
    return []


def names_of(request_id: str) -> list[str]:
    """The ids by which a worker may know it, the given one first."""
    return [request_id, *(request_id.removeprefix(prefix) for prefix in PREFIXES if request_id.startswith(prefix))]


def statistics_of(answers: Mapping[str, Any]) -> list[Any]:
    """Return the statistics of each worker."""
    return [{"worker": worker} | answer for worker, answer in sorted(answers.items())]
