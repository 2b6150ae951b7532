"""The routes by which clients come back to their requests, for the OpenAPI document."""

from __future__ import annotations

from web.openapi.operations import ANY_ROUTE, EVENTS, JSON, LISTS, Operation, Parameter, Reply
from web.storage.detached.answers import Unfinished

MAX_WAIT = 60
"""Seconds for which a client may wait for an answer in one request."""

OPERATIONS = (
    Operation(
        "get",
        "/v1/requests/{request_id}/stream",
        "attach_to_request",
        "The stream of a request that outlives its clients, from any of its events on",
        {
            200: Reply(
                "The rest of the stream, in the words of the API that was asked.",
                {EVENTS: None, "application/x-ndjson": None},
            ),
            204: Reply("The client knows all of it, and nothing follows."),
        },
        parameters=(
            Parameter(
                "after",
                "The number of the last event that the client knows; -1 for none, as without it.",
                {"type": "integer", "minimum": -1, "maximum": 10**9},
            ),
            Parameter("Last-Event-ID", "The same, as browsers say it; it counts before `after`.", place="header"),
        ),
        errors=ANY_ROUTE | LISTS | {404},
    ),
    Operation(
        "get",
        "/v1/requests/{request_id}/result",
        "get_request_result",
        "The answer of a request that outlives its client and was asked without `stream`",
        {
            200: Reply("The answer, in the words of the API that was asked.", {JSON: None}),
            202: Reply.json(Unfinished, "It is not there yet."),
        },
        parameters=(
            Parameter(
                "wait",
                "Wait for the answer, at most so many seconds.",
                {"type": "integer", "minimum": 0, "maximum": MAX_WAIT},
            ),
        ),
        errors=ANY_ROUTE | LISTS | {404, 429, 504},
    ),
)
