"""The routes that look at the engine, for the OpenAPI document."""

from __future__ import annotations

from web.generation.control.groups import OPERATIONS as GROUPS
from web.generation.openai_format.answers.objects import Error
from web.observability.inspection.answers import (
    Cancelled,
    Healthy,
    ReceiptList,
    RequestList,
    SlotList,
    Statistics,
    Unhealthy,
)
from web.observability.inspection.feed.operations import OPERATIONS as FEED
from web.observability.metrics.operations import OPERATIONS as METRICS
from web.openapi import routes as of_document
from web.openapi.operations import ANY_ROUTE, LISTS, Api, Operation, Parameter, Reply
from web.storage.detached.operations import OPERATIONS as DETACHED

INSPECTION = Api(
    "Cede",
    "The state of the engine, the cancel of a request, and this document.",
    Error,
    (
        Operation(
            "get",
            "/health",
            "health",
            "Whether the server serves",
            {200: Reply.json(Healthy, "It does."), 503: Reply.json(Unhealthy, "It does not.")},
            open=True,
        ),
        Operation(
            "get",
            "/slots",
            "slots",
            "What each slot is doing, and how much KV is in it",
            {200: Reply.json(SlotList)},
            errors=ANY_ROUTE | LISTS,
        ),
        Operation(
            "get",
            "/v1/requests",
            "list_requests",
            "The live requests, queued ones too",
            {200: Reply.json(RequestList)},
            errors=ANY_ROUTE | LISTS,
        ),
        Operation(
            "delete",
            "/v1/requests/{request_id}",
            "cancel_request",
            "Cancel exactly this request; drop the answer of one that has ended and is kept",
            {200: Reply.json(Cancelled)},
            parameters=(Parameter("request_id", "The response's id, also in its `x-request-id`.", place="path"),),
            errors=ANY_ROUTE | {404},
        ),
        *DETACHED,
        Operation(
            "get",
            "/v1/receipts",
            "list_receipts",
            "What each cancel cost, the newest first",
            {200: Reply.json(ReceiptList)},
            parameters=(
                Parameter("limit", "At most so many.", {"type": "integer", "minimum": 0, "exclusiveMaximum": 10**9}),
                Parameter("request_id", "Of this request only."),
                Parameter(
                    "wait",
                    "With `request_id`: wait for that request's end, at most so many seconds.",
                    {"type": "integer", "minimum": 0, "maximum": 60},
                ),
            ),
            errors=ANY_ROUTE | LISTS,
        ),
        Operation(
            "get",
            "/v1/statistics",
            "statistics",
            "Counts since the start, and what is held now",
            {200: Reply.json(Statistics)},
        ),
        *GROUPS,
        *FEED,
        *METRICS,
        *of_document.OPERATIONS,
    ),
)
