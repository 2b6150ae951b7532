"""Shapes of errors, by API."""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from web.bodies.errors.problem import ErrorRoute, ErrorShape, ErrorShapes, Problem


def named(name: str) -> ErrorShape:
    """A shape whose error objects are its name."""
    return ErrorShape(lambda problem, request_id: {"name": name, "id": request_id})


SHAPES = ErrorShapes(
    named("default"),
    [
        ErrorRoute("/v1/messages", named("messages")),
        ErrorRoute("/v1/models", named("versioned"), header="anthropic-version"),
    ],
)


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/", {}, "default"),
        ("/v1/messages", {}, "messages"),
        ("/v1/messages/count_tokens", {}, "messages"),
        ("/v1/messages/", {}, "messages"),
        ("/v1/messagesX", {}, "default"),
        ("/v2/v1/messages", {}, "default"),
        ("/v1/models", {}, "default"),
        ("/v1/models", {"Anthropic-Version": "2023-06-01"}, "versioned"),
        ("/v1/models/some", {"anthropic-version": ""}, "versioned"),
        ("/v1/chat", {"anthropic-version": "2023-06-01"}, "default"),
    ],
)
def test_the_path_and_a_header_choose(path: str, headers: dict[str, str], name: str) -> None:
    shape = SHAPES.shape(path, Headers(headers))
    assert shape.body(Problem("no", "invalid_request_error", 400), None) == {"name": name, "id": None}
