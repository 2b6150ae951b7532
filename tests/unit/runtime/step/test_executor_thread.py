"""Steps on the device thread: who waits for what, and cancels that reach a running step."""

from __future__ import annotations

import threading

import pytest
import torch
import trio
from trio.testing import wait_all_tasks_blocked

from runtime.errors import DeviceLost, DeviceThreadEnded
from runtime.step.job import StepJob
from runtime.step.step import Segment, StepResult
from runtime.step.thread_executor import open_thread_executor
from tests.models.step_driver import RecordingModel
from tests.unit.runtime.step.executors import Gate, device_threads, raising, segments_of, thread_executor


async def test_all_torch_code_runs_on_one_thread_in_inference_mode() -> None:
    seen: list[tuple[int, bool]] = []

    class Watched(RecordingModel):
        def _record(self, name: str, batch: list[Segment]) -> None:
            look()
            super()._record(name, batch)

    def look() -> None:
        seen.append((threading.get_ident(), torch.is_inference_mode_enabled()))

    def load() -> Watched:
        look()
        return Watched()

    async with open_thread_executor(load) as executor:
        segments = segments_of()
        for layer in range(3):
            segments[layer].mark.set(lambda: 0)
            await executor.run_step(StepJob(segments))
        await executor.call(look)
    assert len({thread for thread, _ in seen}) == 1
    assert seen[0][0] != threading.get_ident()
    assert all(inference for _, inference in seen)
    assert not torch.is_inference_mode_enabled()


async def test_what_the_model_raises_is_raised_and_the_thread_goes_on() -> None:
    async with thread_executor(RecordingModel(during=raising(RuntimeError("out of memory")))) as executor:
        with pytest.raises(RuntimeError, match="out of memory"):
            await executor.run_step(StepJob(segments_of()))
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


@pytest.mark.parametrize("cancelled", [(1,), (0, 2), (0, 1, 2)], ids=str)
async def test_a_cancel_reaches_a_running_step(cancelled: tuple[int, ...]) -> None:
    gate = Gate(layer=1)
    segments = segments_of()
    async with thread_executor(RecordingModel(4, during=gate.during)) as executor, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def cancel() -> None:
            await gate.entered.wait()
            for i in cancelled:
                segments[i].mark.set(executor.clock)
            gate.open()

        result = await executor.run_step(StepJob(segments))
    assert [i for i, segment in enumerate(result.segments) if not segment.computed] == list(cancelled)
    assert all(result.segments[i].layers_after_cancel == 1 for i in cancelled)
    assert result.layers_run == (2 if len(cancelled) == 3 else 4)


async def test_a_cancelled_caller_waits_for_the_end_of_the_step() -> None:
    gate = Gate(layer=2)
    model = RecordingModel(during=gate.during)
    async with thread_executor(model) as executor, trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        results: list[StepResult] = []

        @nursery.start_soon
        async def caller() -> None:
            with scope:
                results.append(await executor.run_step(StepJob(segments_of())))

        await gate.entered.wait()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert results == []
        gate.open()
    assert results[0].layers_run == 3
    assert model.calls[-1][0] == "finish"


async def test_the_event_loop_is_free_during_a_step() -> None:
    gate, ended = Gate(layer=0), trio.Event()
    async with thread_executor(RecordingModel(during=gate.during)) as executor, trio.open_nursery() as nursery:

        async def step() -> None:
            await executor.run_step(StepJob(segments_of()))
            ended.set()

        nursery.start_soon(step)
        await gate.entered.wait()
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert not ended.is_set()
        gate.open()
    assert ended.is_set()


async def test_a_call_after_the_end_is_refused() -> None:
    async with thread_executor(RecordingModel()) as executor:
        assert len(device_threads()) == 1
    assert device_threads() == []
    with pytest.raises(DeviceLost):
        await executor.run_step(StepJob(segments_of()))


async def test_a_step_in_progress_ends_before_the_thread_does() -> None:
    model = RecordingModel()
    async with thread_executor(model) as executor:
        with trio.CancelScope() as scope:
            scope.cancel()
            await executor.run_step(StepJob(segments_of()))
    assert model.calls[-1][0] == "finish"


@pytest.mark.parametrize(
    ("raised", "shown"),
    [(RuntimeError("no such model"), RuntimeError), (KeyboardInterrupt(), DeviceThreadEnded)],
    ids=repr,
)
async def test_a_model_that_cannot_be_loaded_leaves_no_thread(raised: BaseException, shown: type[Exception]) -> None:
    def load() -> RecordingModel:
        raise raised

    with pytest.raises(shown):
        async with open_thread_executor(load):
            pytest.fail("there is no model")
    assert device_threads() == []
