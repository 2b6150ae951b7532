"""What follows on a result has begun where it runs, and is awaited as any job is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from runtime.errors import DeviceThreadEnded
from runtime.step.device_thread import DeviceThread
from runtime.step.executor import Executor, InlineExecutor, SimulatedExecutor
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment, StepResult
from tests.models.step_driver import RecordingModel, greedy, pages_of
from tests.unit.runtime.step.executors import Gate, device_threads, raising, segments_of, thread_executor

KINDS = ("thread", "inline", "simulated")


@pytest.fixture(autouse=True)
def _loop_that_keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps take no time here, so the event loop would be behind now and then, and the burst end."""
    monkeypatch.setattr(DeviceThread, "is_heard", lambda thread: True)


def _job(steps: int, most: int, *, may_go_on: Callable[[], bool] = lambda: True, slots: int = 2) -> StepJob:
    segments = [Segment(slot, 7, [3], sample=greedy(8), pages=pages_of(slot, 100)) for slot in range(slots)]
    return StepJob(segments, burst=Burst(steps, most, may_go_on))


async def _open(kind: str, model: RecordingModel, stack: AsyncExitStack) -> Executor:
    if kind == "thread":
        return await stack.enter_async_context(thread_executor(model))
    return InlineExecutor(model) if kind == "inline" else SimulatedExecutor(model, lambda rows: 1.0)


async def _run_all(executor: Executor, job: StepJob | None) -> list[StepResult]:
    results = []
    while job is not None:
        results.append(await executor.run_step(job))
        job = results[-1].following
    return results


def _begun(model: RecordingModel) -> int:
    return sum(name == "begin" for name, _ in model.calls)


def _in_layer(number: int, then: Callable[[int], None]) -> Callable[[int], None]:
    """For `during`: does something in so many-th layer of three a step, counted from 0."""
    layers = iter(range(100))

    def during(index: int) -> None:
        if next(layers) == number:
            then(index)

    return during


@pytest.mark.parametrize("kind", KINDS)
async def test_a_burst_is_told_in_parts(kind: str, autojump_clock: MockClock) -> None:
    model = RecordingModel()
    async with AsyncExitStack() as stack:
        results = await _run_all(await _open(kind, model, stack), _job(2, 5))
    assert [result.steps for result in results] == [2, 2, 1]
    assert [[len(one.tokens) for one in result.segments] for result in results] == [[2, 2], [2, 2], [1, 1]]
    following = [result.following for result in results]
    assert [job and (job.before, job.segments[0].start) for job in following] == [(2, 9), (4, 11), None]
    assert _begun(model) == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", range(1, 5))
async def test_nothing_follows_where_it_may_not_go_on(kind: str, steps: int, autojump_clock: MockClock) -> None:
    answers = iter([True] * (steps - 1) + [False])
    model = RecordingModel()
    async with AsyncExitStack() as stack:
        results = await _run_all(await _open(kind, model, stack), _job(1, 9, may_go_on=lambda: next(answers)))
    assert [result.steps for result in results] == [1] * steps
    assert _begun(model) == steps


@pytest.mark.parametrize("kind", KINDS)
async def test_each_layer_is_told_of_with_the_steps_that_went_before(kind: str, autojump_clock: MockClock) -> None:
    told: list[int] = []
    job = _job(2, 3)
    async with AsyncExitStack() as stack:
        executor = await _open(kind, RecordingModel(), stack)
        await _run_all(executor, StepJob(job.segments, layer_done=told.append, burst=job.burst))
    assert told == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_cancelled_meanwhile_leaves_what_follows(kind: str, autojump_clock: MockClock) -> None:
    """On a thread it may have gone on by then; the cancel is seen at the next boundary in any case."""
    gate = Gate(layer=1)
    async with AsyncExitStack() as stack:
        model = RecordingModel(during=_in_layer(4, gate.during) if kind == "thread" else lambda index: None)
        executor = await _open(kind, model, stack)
        job = _job(1, 9)
        first = await executor.run_step(job)
        assert first.following is not None
        job.segments[0].mark.set(executor.clock)
        gate.open()
        second = await executor.run_step(first.following)
    assert [one.computed for one in first.segments] == [True, True]
    assert [one.computed for one in second.segments] == [False, True]
    assert second.segments[0].layers_after_cancel <= 1
    assert second.following is None


async def test_what_follows_begins_at_once_in_virtual_time(autojump_clock: MockClock) -> None:
    model = RecordingModel()
    executor = SimulatedExecutor(model, lambda rows: 1.0)
    result = await executor.run_step(_job(1, 2))
    assert (_begun(model), trio.current_time()) == (2, result.finished_at)
    assert result.following is not None
    await trio.sleep(50.0)
    assert (await executor.run_step(result.following)).finished_at == result.finished_at + 50.0 + 3.0


async def test_nothing_else_can_be_run_before_what_has_begun(autojump_clock: MockClock) -> None:
    for kind in ("thread", "simulated"):
        async with AsyncExitStack() as stack:
            executor = await _open(kind, RecordingModel(), stack)
            following = (await executor.run_step(_job(1, 2))).following
            assert following is not None
            with pytest.raises(AssertionError, match="awaited before all else"):
                await executor.run_step(_job(1, 2))
            assert (await executor.run_step(following)).steps == 1


# --- on the device thread -----------------------------------------------------------------------------------------


async def test_a_step_is_told_of_while_the_layers_of_the_next_run() -> None:
    gate = Gate(layer=0)
    model = RecordingModel(during=_in_layer(3, gate.during))
    async with thread_executor(model) as executor:
        first = await executor.run_step(_job(1, 2))  # the device thread stands in the second step
        await gate.entered.wait()
        assert first.segments[0].tokens
        assert model.calls[-1][0] == "layer 0"
        gate.open()
        assert first.following is not None
        second = await executor.run_step(first.following)
    assert (second.layers_run, second.following) == (3, None)


@pytest.mark.parametrize("layer", range(3, 6))
async def test_what_follows_can_fail_and_what_was_told_stands(layer: int) -> None:
    model = RecordingModel(during=_in_layer(layer, raising(ZeroDivisionError())))
    async with thread_executor(model) as executor:
        first = await executor.run_step(_job(1, 9))
        assert [one.computed for one in first.segments] == [True, True]
        assert first.following is not None
        with pytest.raises(ZeroDivisionError):
            await executor.run_step(first.following)
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


async def test_a_step_that_fails_to_begin_hides_nothing_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecordingModel()
    begin, begun = model.begin, iter([False, True, False])

    def begin_or_fail(segments: list[Segment]) -> list[Segment]:
        if next(begun):
            raise ZeroDivisionError
        return begin(segments)

    monkeypatch.setattr(model, "begin", begin_or_fail)
    for kind in KINDS:
        begun = iter([False, True, False])
        async with AsyncExitStack() as stack:
            executor = await _open(kind, model, stack)
            first = await executor.run_step(_job(1, 9))
            assert first.following is not None
            with pytest.raises(ZeroDivisionError):
                await executor.run_step(first.following)
            assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


@pytest.mark.parametrize("where", ["begin", "layer"])
async def test_a_thread_can_end_in_what_follows(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecordingModel(during=_in_layer(3, raising(SystemExit(3))) if where == "layer" else lambda index: None)
    begin, ends = model.begin, iter([False, where == "begin", False])

    def begin_or_end(segments: list[Segment]) -> list[Segment]:
        if next(ends):
            raise SystemExit(3)
        return begin(segments)

    monkeypatch.setattr(model, "begin", begin_or_end)
    async with thread_executor(model) as executor:
        first = await executor.run_step(_job(1, 9))
        assert [len(one.tokens) for one in first.segments] == [1, 1]
        assert first.following is not None
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(first.following)
        await executor.recover()
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3
        assert len(device_threads()) == 1
