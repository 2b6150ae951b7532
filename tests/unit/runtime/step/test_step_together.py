"""Layers that run in one call: a cancel takes effect in the layer in which it does where each runs by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from ctypes import c_int32
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from runtime.step.job import StepJob
from runtime.step.shortcuts import LayersTogether
from runtime.step.step import CancelMark, Segment, StepResult, run_step
from tests.models.step_driver import RecordingModel, RecordingTogether, greedy, run
from tests.unit.runtime.step.executors import thread_executor

LAYERS = 5
SUBSETS = list(chain.from_iterable(combinations(range(3), size) for size in range(4)))


def _segments() -> list[Segment]:
    return [Segment(slot, 0, [7] * (slot + 1), sample=greedy(slot + 1)) for slot in range(3)]


class _Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


def _step(
    make: Callable[[Callable[[int], None], _Clock], RecordingModel], cancels: dict[int, list[int]]
) -> tuple[RecordingModel, StepResult]:
    """Run a step of three segments whose layers take a second each; in the middle of one, it says who is cancelled."""
    clock, segments = _Clock(), _segments()

    def during(index: int) -> None:
        clock.now += 0.5
        for i in cancels.get(index, ()):
            segments[i].mark.set(clock)
        clock.now += 0.5

    model = make(during, clock)
    together = model if isinstance(model, LayersTogether) else None
    return model, run(model, segments, clock=clock, together=together)


def _apart(during: Callable[[int], None], _: _Clock) -> RecordingModel:
    return RecordingModel(LAYERS, during=during)


@given(
    cancels=st.dictionaries(st.integers(0, LAYERS - 1), st.sampled_from(SUBSETS).map(list)),
    alone=st.sets(st.integers(0, LAYERS - 1)),
    most=st.integers(1, LAYERS),
)
def test_a_step_is_what_it_is_layer_by_layer(cancels: dict[int, list[int]], alone: set[int], most: int) -> None:
    """The same calls of the model, the same results, and the same times."""

    def together(during: Callable[[int], None], clock: _Clock) -> RecordingModel:
        return RecordingTogether(LAYERS, during=during, clock=clock, alone=alone, most=most)

    model, result = _step(together, cancels)
    reference, expected = _step(_apart, cancels)
    assert model.calls == reference.calls
    assert result == expected


def test_all_layers_run_in_one_call() -> None:
    model = RecordingTogether(LAYERS)
    assert len(list(run_step(model, _segments(), time.perf_counter, model))) == 1
    assert model.together == [LAYERS]


def test_who_is_cancelled_leaves_in_the_layer_that_runs() -> None:
    def together(during: Callable[[int], None], clock: _Clock) -> RecordingModel:
        return RecordingTogether(LAYERS, during=during, clock=clock)

    model, result = _step(together, {1: [0]})
    assert isinstance(model, RecordingTogether)
    assert model.together == [2, 3]
    assert result.segments[0].layers_after_cancel == 1
    assert result.segments[0].last_kernel_at == 3.0  # two layers after the start
    assert result.segments[1].last_kernel_at == 6.0


# --- the mark -------------------------------------------------------------------------------------------------------


def test_kernels_see_a_cancel_before_its_time_is_taken() -> None:
    """So that a layer which they began without it cannot have begun after it."""
    mark = CancelMark()
    flag = c_int32.from_address(mark.address)
    assert flag.value == 0
    seen: list[int] = []

    def clock() -> float:
        seen.append(flag.value)
        return 1.5

    assert mark.set(clock) == mark.at == 1.5
    assert seen == [1]
    assert mark.set(clock) == 1.5
    assert seen == [1]


def test_no_layer_came_after_a_cancel_whose_time_is_not_known_yet() -> None:
    mark = CancelMark()
    during: list[float | None] = []

    def clock() -> float:
        during.append(mark.at)
        return 1.5

    mark.set(clock)
    assert during[0] is not None
    assert not during[0] < 1e9


def test_each_mark_has_a_flag_of_its_own() -> None:
    marks: Collection[CancelMark] = [CancelMark() for _ in range(3)]
    first, *others = marks
    first.set(lambda: 0.0)
    assert [c_int32.from_address(mark.address).value for mark in others] == [0, 0]


# --- on the device thread -------------------------------------------------------------------------------------------


async def test_the_device_thread_runs_layers_together() -> None:
    model = RecordingTogether(LAYERS)
    async with thread_executor(model) as executor:
        result = await executor.run_step(StepJob(_segments()))
    assert model.together == [LAYERS]
    assert result.layers_run == LAYERS
    assert list(result.layer_ends) == sorted(result.layer_ends)
    assert result.started_at <= result.layer_ends[0]
    assert result.layer_ends[-1] <= result.finished_at


async def test_who_looks_at_each_layer_sees_each_where_it_ends() -> None:
    seen: list[int] = []
    model = RecordingTogether(LAYERS)
    async with thread_executor(model) as executor:
        await executor.run_step(StepJob(_segments(), layer_done=lambda _: seen.append(len(model.calls))))
    assert model.together == []
    assert seen == [2, 3, 4, 5, 6]  # calls of the model, of which the first began the step
