"""Each field that means nothing is told of once."""

from __future__ import annotations

import logging

import pytest

from web.generation.passed_over import MOST_NAMES, MOST_TOLD, IgnoredFields


def test_a_name_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ignored = IgnoredFields()
    with caplog.at_level(logging.INFO, "cede.web"):
        ignored.tell("r1", ["a", "b"])
        ignored.tell("r2", ["a", "c"])
        ignored.tell("r3", ["c"])
    assert caplog.messages == ["r1: ignored unknown fields: 'a, b'", "r2: ignored unknown fields: 'c'"]


def test_what_clients_can_write_into_the_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    ignored = IgnoredFields()
    with caplog.at_level(logging.INFO, "cede.web"):
        for number in range(MOST_NAMES):
            ignored.tell("r", [f"{number}-{name}" for name in range(MOST_TOLD + 5)])
    assert len(caplog.messages) == MOST_NAMES / MOST_TOLD
