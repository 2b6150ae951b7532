"""One step of two ranks: who is dropped where, and how all leave it where one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import outcome
import pytest
import torch

from runtime.devices.parallel.marks import with_agreed_marks
from runtime.devices.parallel.shared_step import SharedStep, StepAborted, Sum
from runtime.step.step import CancelMark, Segment
from tests.live.server import PATIENCE

LAYERS = 4
SUMS = (Sum(2, torch.float32), Sum(3, torch.float32))
CPU = torch.device("cpu")


class Adder:
    """Adds up the tensors of two threads, in place; `during` is called in each sum, with its number from 1."""

    def __init__(self, during: Callable[[int], None] = lambda number: None) -> None:
        self._meeting = threading.Barrier(2, timeout=PATIENCE)
        self._given: dict[int, torch.Tensor] = {}
        self._during = during
        self._sums = 0

    def reduce(self, rank: int) -> Callable[[torch.Tensor], None]:
        """Return what one rank adds up with."""

        def add_up(part: torch.Tensor) -> None:
            self._given[rank] = part
            if self._meeting.wait() == 0:
                self._sums += 1
                self._during(self._sums)
            self._meeting.wait()
            mine, other = self._given[rank], self._given[1 - rank]
            assert mine.shape == other.shape
            total = mine + other
            self._meeting.wait()
            part.copy_(total)

        return add_up


Trace = list[list[int]]


def run_rank(step: SharedStep, fail_before: int | None = None) -> Trace:
    """Run a rank's layers; returns the slots that are left after each.  It fails before that sum, from 0, if any."""
    trace: Trace = []
    sums = 0
    try:
        while not step.has_ended:
            rows = sum(len(segment.token_ids) for segment in step.segments)
            for width, dtype in SUMS:
                if sums == fail_before:
                    raise MemoryError("no room")
                summed = step.whole(torch.ones(rows, width, dtype=dtype))
                assert summed.shape == (rows, width)
                sums += 1
            trace.append([segment.slot for segment in step.segments])
    except MemoryError:
        step.abort()
        raise
    return trace


def run_both(
    asked: Sequence[Segment], adder: Adder, fails: dict[int, int] | None = None
) -> tuple[outcome.Outcome[Trace], outcome.Outcome[Trace]]:
    """Run a step on both ranks; of rank 1 the marks are its own, which nobody sets but the step."""
    agreed = with_agreed_marks(asked)
    marks = {segment.slot: CancelMark() for segment in asked}
    for segment in agreed:
        if segment.mark.at is not None:
            marks[segment.slot].set(lambda: 0.0)
    theirs = [Segment(segment.slot, segment.start, segment.token_ids, marks[segment.slot]) for segment in asked]
    steps = [
        SharedStep(segments, LAYERS, SUMS, CPU, adder.reduce(rank), leads=rank == 0)
        for rank, segments in enumerate((agreed, theirs))
    ]
    ends: dict[int, outcome.Outcome[Trace]] = {}

    def work(rank: int) -> None:
        ends[rank] = outcome.capture(run_rank, steps[rank], (fails or {}).get(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends[0], ends[1]


def agreed_trace(asked: Sequence[Segment], adder: Adder) -> Trace:
    """Run a step on both ranks, which have the same left after each layer: return what."""
    first, second = (end.unwrap() for end in run_both(asked, adder))
    assert first == second
    return first


def segments(count: int = 3) -> list[Segment]:
    return [Segment(slot, 0, [1] * (slot + 1)) for slot in range(count)]


@pytest.mark.parametrize(("number", "left_after"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 3)])
def test_all_ranks_drop_the_same_rows_at_the_same_layer(number: int, left_after: int) -> None:
    """A mark that is set before a layer's last sum begins rides in that; one that is set in it, in the next layer's."""
    asked = segments()

    def during(sums: int) -> None:
        if sums == number:
            asked[1].mark.set(lambda: 5.0)

    expected = [[0, 1, 2]] * left_after + [[0, 2]] * (LAYERS - left_after)
    assert agreed_trace(asked, Adder(during)) == expected


def test_what_is_cancelled_before_the_step_is_in_no_layer() -> None:
    asked = segments()
    asked[0].mark.set(lambda: 1.0)
    assert agreed_trace(asked, Adder()) == [[1, 2]] * LAYERS


def test_a_step_ends_where_nobody_is_left() -> None:
    asked = segments(1)

    def during(sums: int) -> None:
        asked[0].mark.set(lambda: 1.0)

    assert agreed_trace(asked, Adder(during)) == [[]]


def test_more_segments_than_a_row_has_numbers() -> None:
    asked = segments(9)

    def during(sums: int) -> None:
        for segment in (asked[2], asked[8]):
            segment.mark.set(lambda: 1.0)

    assert agreed_trace(asked, Adder(during)) == [[0, 1, 3, 4, 5, 6, 7]] * LAYERS


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("before", range(2 * LAYERS))
def test_a_rank_that_fails_leaves_nobody_waiting(rank: int, before: int) -> None:
    ends = run_both(segments(), Adder(), {rank: before})
    with pytest.raises(MemoryError):
        ends[rank].unwrap()
    with pytest.raises(StepAborted):
        ends[1 - rank].unwrap()


def test_both_ranks_may_fail_in_the_same_layer() -> None:
    for end in run_both(segments(), Adder(), {0: 3, 1: 2}):
        with pytest.raises(MemoryError):
            end.unwrap()


def test_a_step_that_has_ended_needs_no_word() -> None:
    asked = segments(1)
    asked[0].mark.set(lambda: 1.0)

    def reduce(part: torch.Tensor) -> None:
        raise AssertionError("nobody is there to add up with")

    step = SharedStep(with_agreed_marks(asked), LAYERS, SUMS, CPU, reduce, leads=True)
    assert step.has_ended
    step.abort()
