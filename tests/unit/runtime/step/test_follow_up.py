"""A step that is begun as soon as the one before it has ended is adopted, or withdrawn and leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from runtime.errors import DeviceThreadEnded
from runtime.sampling.tokens import AllowedTokens
from runtime.step.executor import InlineExecutor, SimulatedExecutor
from runtime.step.follow_up import FollowUp, can_be_followed, next_segments
from runtime.step.step import CancelMark, Segment, SegmentResult, StepResult
from runtime.step.thread_executor import open_thread_executor
from runtime.testing.simulated import SimulatedModel
from tests.models.step_driver import RecordingModel, greedy, run
from tests.sim.scheduler import simulated
from tests.unit.runtime.step.executors import Gate, raising, thread_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.step.executor import Executor

CONTEXT = 16


def rows(slots: int = 2) -> list[Segment]:
    """One row in each of so many slots."""
    return [Segment(slot, 0, [slot + 1], sample=greedy(1), origin=CONTEXT * slot) for slot in range(slots)]


def like(segments: Sequence[Segment]) -> list[Segment]:
    """The same rows as somebody else would plan them."""
    return [replace(segment, token_ids=list(segment.token_ids)) for segment in segments]


def begun(model: RecordingModel) -> int:
    """How many steps have begun."""
    return sum(name == "begin" for name, _ in model.calls)


async def _continue(executor: Executor, steps: int) -> list[int]:
    """Run so many steps, each adopted after the first; the tokens of slot 0."""
    segments: Sequence[Segment] = rows()
    drawn = []
    for number in range(steps):
        follow_up = FollowUp() if number + 1 < steps else None
        result = await executor.run_step(segments, follow_up=follow_up)
        drawn.append(result.segments[0].tokens[0].token_id)
        if follow_up is not None:
            assert follow_up.is_begun
            assert follow_up.is_same(like(next_segments(segments, result)))
            segments = follow_up.segments
    return drawn


async def test_steps_that_are_adopted_on_a_thread_draw_what_is_drawn_alone() -> None:
    model = SimulatedModel(slots=2, context=CONTEXT)
    async with open_thread_executor(lambda: model) as executor:
        assert await _continue(executor, 5) == model.continuation([1], 5)


@simulated()
async def test_steps_that_are_adopted_take_their_own_time() -> None:
    model = SimulatedModel(slots=2, context=CONTEXT, num_layers=4)
    assert await _continue(SimulatedExecutor(model, lambda _: 0.25), 5) == model.continuation([1], 5)
    assert trio.current_time() == pytest.approx(5.0)


@simulated()
async def test_one_that_is_withdrawn_ends_at_its_next_layer_boundary() -> None:
    executor = SimulatedExecutor(SimulatedModel(slots=2, context=CONTEXT, num_layers=4), lambda _: 0.25)
    follow_up = FollowUp()
    await executor.run_step(rows(), follow_up=follow_up)
    await trio.sleep(0.6)
    result = await executor.retract()
    assert result is not None
    assert result.layers_run == 3
    assert not any(segment.computed for segment in result.segments)
    assert not follow_up.is_same(follow_up.segments)
    assert await executor.retract() is None


async def test_a_step_that_was_not_foretold_waits_for_the_end_of_the_other() -> None:
    gate = Gate(layer=1)
    model: RecordingModel = RecordingModel(during=lambda index: gate.during(index) if begun(model) == 2 else None)
    async with thread_executor(model) as executor, trio.open_nursery() as nursery:
        await executor.run_step(rows(), follow_up=(follow_up := FollowUp()))
        await gate.entered.wait()
        nursery.start_soon(executor.run_step, rows(1))
        await wait_all_tasks_blocked()
        assert follow_up.withdrawn.at is not None
        assert begun(model) == 2
        gate.open()
    names = [name for name, _ in model.calls[5:]]
    assert names == ["begin", "layer 0", "layer 1", "abandon", "begin", "layer 0", "layer 1", "layer 2", "finish"]


async def test_nothing_follows_a_step_of_which_something_was_cancelled() -> None:
    async with thread_executor(RecordingModel()) as executor:
        segments = rows()
        segments[1].mark.set(0)
        await executor.run_step(segments, follow_up=(follow_up := FollowUp()))
        assert not follow_up.is_begun
        assert await executor.retract() is None


async def test_a_follow_up_that_raises_does_so_where_it_is_adopted() -> None:
    model: RecordingModel = RecordingModel(during=lambda index: 1 // (2 - begun(model)) and None)
    async with thread_executor(model) as executor:
        await executor.run_step(rows(), follow_up=(follow_up := FollowUp()))
        with pytest.raises(ZeroDivisionError):
            await executor.run_step(follow_up.segments)


async def test_a_follow_up_that_raises_concerns_nobody_once_it_is_withdrawn() -> None:
    model: RecordingModel = RecordingModel(during=lambda index: 1 // (2 - begun(model)) and None)
    async with thread_executor(model) as executor:
        await executor.run_step(rows(), follow_up=FollowUp())
        assert await executor.retract() is None


async def test_what_a_thread_that_ended_has_left_is_not_run_by_the_next() -> None:
    model = RecordingModel(during=raising(SystemExit(3)))
    async with thread_executor(model) as executor:
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(rows(), follow_up=(follow_up := FollowUp()))
        assert follow_up.withdrawn.at is not None
        await executor.recover()
        begun = len(model.calls)
        await executor.call(lambda: None)
        assert len(model.calls) == begun
        assert (await executor.run_step(rows())).layers_run == 3


async def test_an_executor_may_leave_a_follow_up_alone() -> None:
    executor = InlineExecutor(SimulatedModel(slots=2, context=CONTEXT))
    await executor.run_step(rows(), follow_up=(follow_up := FollowUp()))
    assert not follow_up.is_begun
    assert await executor.retract() is None


def test_only_a_row_that_is_drawn_freely_can_be_followed() -> None:
    row = rows(1)[0]
    assert can_be_followed(row)
    assert row.sample is not None
    masked = replace(row.sample, masks=(AllowedTokens([1], 8),))
    assert not can_be_followed(replace(row, token_ids=[1, 2]))
    assert not can_be_followed(replace(row, sample=None))
    assert not can_be_followed(replace(row, sample=masked))


def test_a_row_that_is_not_the_same_is_another_step() -> None:
    first = rows()
    follow_up = FollowUp(segments=next_segments(first, run(SimulatedModel(slots=2, context=CONTEXT), first)))
    same = like(follow_up.segments)
    assert follow_up.is_same(same)
    assert not follow_up.is_same(same[:1])
    assert not follow_up.is_same([replace(same[0], token_ids=[0]), same[1]])
    assert not follow_up.is_same([replace(same[0], start=5), same[1]])
    assert not follow_up.is_same([replace(same[0], origin=3), same[1]])
    assert not follow_up.is_same([replace(same[0], sample=greedy(9)), same[1]])
    assert not follow_up.is_same([replace(same[0], mark=CancelMark()), same[1]])


def test_nothing_follows_rows_that_are_not_finite() -> None:
    broken = StepResult((SegmentResult(False, 1.0, finite=False),), 0.0, 1.0, ())
    assert next_segments(rows(1), broken) == ()
