"""The routes of the control address, for the OpenAPI document that it has of its own."""

from __future__ import annotations

from web.cluster.control.answers import (
    CancelledAt,
    FrameOf,
    GroupEndedAtAll,
    GroupsOfAll,
    ReceiptsOfAll,
    RequestsOfAll,
    SlotsOfAll,
    StatisticsOfAll,
)
from web.generation.openai_format.answers.objects import Error
from web.openapi import routes as of_document
from web.openapi.operations import ANY_ROUTE, EVENTS, Api, Operation, Parameter, Reply

LIMIT = {"type": "integer", "minimum": 0, "maximum": 10**9}
WAIT = {"type": "integer", "minimum": 0, "maximum": 60}
ERRORS = ANY_ROUTE - {401} | {400}
"""Nobody has to say who he is here."""

CONTROL = Api(
    "Control",
    "What all workers of a cluster do, and the end of requests at whichever worker they are.",
    Error,
    (
        Operation(
            "get",
            "/v1/requests",
            "list_requests",
            "The live requests of all workers",
            {200: Reply.json(RequestsOfAll)},
            errors=ERRORS,
        ),
        Operation(
            "delete",
            "/v1/requests/{request_id}",
            "cancel_request",
            "Cancel exactly this request, at the worker that has it",
            {200: Reply.json(CancelledAt)},
            parameters=(
                Parameter("request_id", "As the worker knows it, or the answer's id.", place="path"),
                Parameter("worker", "The only one that is looked at: 16 hexadecimal digits."),
            ),
            errors=ERRORS | {404, 503},
        ),
        Operation(
            "get",
            "/v1/receipts",
            "list_receipts",
            "What each cancel cost, the newest first",
            {200: Reply.json(ReceiptsOfAll)},
            parameters=(
                Parameter("limit", "At most so many.", LIMIT),
                Parameter("request_id", "Of requests of this id only."),
                Parameter("wait", "With `request_id`: wait for their ends, at most so many seconds.", WAIT),
            ),
            errors=ERRORS,
        ),
        Operation(
            "get",
            "/slots",
            "slots",
            "What each slot of each worker is doing",
            {200: Reply.json(SlotsOfAll)},
            errors=ERRORS,
        ),
        Operation(
            "get",
            "/v1/statistics",
            "statistics",
            "Of each worker, counts since its start, and what it holds now",
            {200: Reply.json(StatisticsOfAll)},
            errors=ERRORS,
        ),
        Operation(
            "get",
            "/v1/groups",
            "list_groups",
            "The groups that have live requests at any worker",
            {200: Reply.json(GroupsOfAll)},
            errors=ERRORS,
        ),
        Operation(
            "delete",
            "/v1/groups/{group}",
            "end_group",
            "Cancel all live requests of a group, and of the groups in it, at all workers",
            {200: Reply.json(GroupEndedAtAll)},
            parameters=(Parameter("group", "As in the requests' `cede.group`; it may have slashes.", place="path"),),
            errors=ERRORS,
        ),
        Operation(
            "get",
            "/v1/events",
            "watch",
            "What all workers do, while they do it: server-sent events `snapshot`, `frame` and `lagged`, each of one "
            "worker; `worker`, which says by `standing` that one `joined`, is `silent` or has `left`; and `end`",
            {200: Reply("A stream that ends when the server does.", {EVENTS: FrameOf})},
            parameters=(
                Parameter("follow", "`false` for the first frame of each worker alone.", {"enum": ["true", "false"]}),
            ),
            errors=ERRORS,
            endless=True,
        ),
        *of_document.OPERATIONS,
    ),
)
