"""The account of frames that bring no work."""

from __future__ import annotations

import pytest
from hyperframe.frame import DataFrame, Frame, HeadersFrame, PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame

from web.http.transport.frame_budget import REQUEST, SMALL, FrameBudget, cost
from web.process.limits import FRAME_BURST, FRAME_RATE, Limits


def taken(budget: FrameBudget, units: int, now: float) -> int:
    """Return how many times so many units can be taken."""
    count = 0
    while budget.take(units, now):
        count += 1
    return count


def test_so_many_frames_may_come_at_once_and_then_so_many_a_second() -> None:
    budget = FrameBudget(100)
    assert taken(budget, 1, 100) == FRAME_BURST
    assert taken(budget, 1, 101) == FRAME_RATE
    assert taken(budget, 1, 101) == 0
    assert taken(budget, 1, 10**6) == FRAME_BURST, "no more than at first"


def test_what_is_answered_costs_nothing() -> None:
    budget = FrameBudget(0)
    for _ in range(10 * FRAME_BURST):
        assert budget.take(REQUEST, 0)
        budget.give(REQUEST)
    budget.give(10**6)
    assert taken(budget, 1, 0) == FRAME_BURST, "nor is more given back than there was"


def test_a_client_may_cancel_all_of_its_requests_at_a_time() -> None:
    budget = FrameBudget(0)
    reset = cost(HeadersFrame(1)) + cost(RstStreamFrame(1))
    assert Limits().streams < taken(budget, reset, 0) < 2 * Limits().streams


@pytest.mark.parametrize("frame", [PingFrame(0), SettingsFrame(0), PriorityFrame(1), RstStreamFrame(1), DataFrame(1)])
def test_a_frame_that_brings_nothing_costs_something(frame: Frame) -> None:
    assert cost(frame) == 1


def test_data_costs_nothing_if_it_is_enough_or_the_last() -> None:
    assert cost(DataFrame(1, b" " * SMALL)) == 0
    assert cost(DataFrame(1, b" " * (SMALL - 1))) == 1
    assert cost(DataFrame(1, b"", flags=["END_STREAM"])) == 0
