"""Errors, and what becomes of the request."""

from __future__ import annotations

import pytest

from runtime.errors import (
    AnswersUnread,
    CedeError,
    DeadlineExceeded,
    DeviceHangs,
    DeviceLost,
    NotFound,
    QueueFull,
    QueueTimeout,
    RequestError,
    ShuttingDown,
    StepFailed,
)
from web.cluster.failures import Fate, dynamo_error, fate_of


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (QueueFull("x"), Fate.ELSEWHERE),
        (ShuttingDown("x"), Fate.LEFT),
        (DeviceLost("x"), Fate.LEFT),
        (DeviceHangs("x"), Fate.LEFT),
        (RequestError("x"), Fate.REFUSED),
        (NotFound("x"), Fate.REFUSED),
        (QueueTimeout("x"), Fate.LATER),
        (AnswersUnread("x"), Fate.LATER),
        (DeadlineExceeded("x"), Fate.LATER),
        (StepFailed("x"), Fate.BROKEN),
        (CedeError("x"), Fate.BROKEN),
    ],
)
def test_what_an_error_means_for_the_request(error: CedeError, fate: Fate) -> None:
    assert fate_of(error) is fate


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (QueueFull("why"), "CannotConnect"),
        (ShuttingDown("why"), "EngineShutdown"),
        (RequestError("why"), "InvalidArgument"),
        (QueueTimeout("why"), "HttpError"),
        (StepFailed("why"), "Unknown"),
    ],
)
def test_dynamo_is_told_in_its_own_exceptions(error: CedeError, name: str) -> None:
    pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")
    told = dynamo_error(error)
    assert type(told).__name__ == name
    assert "why" in str(told)
