"""Descriptions of errors, and which errors the log has."""

from __future__ import annotations

import pytest

from runtime.errors import CedeError, NotFound, QueueFull, RequestError, StepFailed
from web.bodies.errors.problem import INTERNAL, Problem, report


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            RequestError("no", param="top_p", code="odd"),
            Problem("no", "invalid_request_error", 400, param="top_p", code="odd"),
        ),
        (
            NotFound("which?", param="model", code="model_not_found"),
            Problem("which?", "invalid_request_error", 404, param="model", code="model_not_found"),
        ),
        (QueueFull("full", retry_after=2), Problem("full", "rate_limit_error", 429, code="queue_full", retry_after=2)),
        (StepFailed("broken"), Problem("broken", "server_error", 500, code="step_failed")),
    ],
)
def test_a_problem_has_what_the_error_knows(error: CedeError, problem: Problem) -> None:
    assert Problem.of(error) == problem


def test_a_problem_is_short_whatever_the_error_quotes() -> None:
    message = Problem.of(NotFound(f"there is no '{'x' * 100_000}' here")).message
    assert message.startswith("there is no 'xxx")
    assert message.endswith("xxx' here")
    assert len(message) == 2000


@pytest.mark.parametrize(("error", "logged"), [(StepFailed("broken"), True), (QueueFull("full"), False)])
def test_only_what_is_the_servers_fault_is_logged(
    error: CedeError, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    report(error)
    assert [record.getMessage() for record in caplog.records] == (["StepFailed: broken"] if logged else [])


def test_an_internal_error_says_nothing_of_its_cause() -> None:
    assert (INTERNAL.status, INTERNAL.code) == (500, "internal_error")
