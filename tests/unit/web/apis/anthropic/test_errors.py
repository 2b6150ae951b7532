"""Errors as Anthropic's client knows them."""

from __future__ import annotations

import pytest
from anthropic.types import ErrorResponse

from runtime.errors import (
    CedeError,
    DeadlineExceeded,
    DeviceLost,
    NotFound,
    QueueFull,
    QueueTimeout,
    RequestError,
    StepFailed,
)
from web.apis.anthropic.errors import ANTHROPIC_ERRORS, error_object
from web.bodies.errors.problem import INTERNAL, Problem
from web.http.browser_policy import RequestRefused
from web.process.access.api_keys import KeyRefused

SHOWN: list[tuple[CedeError, int, str]] = [
    (RequestError("no"), 400, "invalid_request_error"),
    (KeyRefused(), 401, "authentication_error"),
    (RequestRefused("no", 403, "origin_not_allowed"), 403, "permission_error"),
    (NotFound("which?"), 404, "not_found_error"),
    (RequestRefused("no", 415, "unsupported_media_type"), 415, "invalid_request_error"),
    (QueueFull("full", retry_after=1), 529, "overloaded_error"),
    (QueueTimeout("late"), 529, "overloaded_error"),
    (DeviceLost("gone"), 529, "overloaded_error"),
    (StepFailed("broken"), 500, "api_error"),
    (DeadlineExceeded("late"), 504, "timeout_error"),
]


@pytest.mark.parametrize(("error", "status", "kind"), SHOWN)
@pytest.mark.parametrize("request_id", [None, "msg_1"])
def test_each_error_has_anthropics_type_and_status(
    error: CedeError, status: int, kind: str, request_id: str | None
) -> None:
    shape, problem = ANTHROPIC_ERRORS, Problem.of(error)
    body = shape.body(problem, request_id)
    assert shape.status(problem) == status
    assert body == {"type": "error", "error": {"type": kind, "message": str(error)}, "request_id": request_id}
    ErrorResponse.model_validate(body, strict=True)


def test_a_full_queue_is_not_a_client_that_asks_too_much() -> None:
    limited = Problem("slower", "rate_limit_error", 429, code="rate_limit_exceeded")
    assert ANTHROPIC_ERRORS.status(limited) == 429
    assert error_object(limited, None)["error"]["type"] == "rate_limit_error"


def test_a_body_that_is_too_large() -> None:
    assert error_object(Problem("no", "invalid_request_error", 413), None)["error"] == {
        "type": "request_too_large",
        "message": "no",
    }


def test_a_prompt_that_is_too_long_says_so_in_the_words_that_clients_look_for() -> None:
    error = RequestError("This model has 64 tokens.", code="context_length_exceeded")
    assert error_object(Problem.of(error), None)["error"] == {
        "type": "invalid_request_error",
        "message": "prompt is too long: This model has 64 tokens.",
    }


def test_an_internal_error() -> None:
    assert error_object(INTERNAL, None)["error"]["type"] == "api_error"
