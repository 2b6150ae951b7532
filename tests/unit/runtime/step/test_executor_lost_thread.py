"""A device thread that ends or hangs is told, given up and replaced."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import torch
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded
from runtime.step.device_thread import HANG_CHECKS, DeviceThread
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment, StepResult
from runtime.step.thread_executor import ThreadExecutor, open_thread_executor
from runtime.step.transfer import Copy, Transfer
from tests.models.step_driver import RecordingModel, greedy
from tests.unit.runtime.step.executors import Gate, device_threads, raising, segments_of, thread_executor

HANG = 60.0  # seconds of virtual time


async def _pass(turns: int) -> None:
    """Let so many looks at the thread pass."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    for _ in range(turns):
        await wait_all_tasks_blocked()
        clock.jump(HANG / HANG_CHECKS)
    await wait_all_tasks_blocked()


@asynccontextmanager
async def _hanging(gate: Gate, model: RecordingModel) -> AsyncIterator[ThreadExecutor[RecordingModel]]:
    """An executor whose thread has been given up in `gate`, which is opened at the end."""

    async def wait_in_vain(executor: ThreadExecutor[RecordingModel]) -> None:
        with pytest.raises(DeviceHangs, match="60 s"):
            await executor.run_step(StepJob(segments_of()))

    try:
        async with open_thread_executor(lambda: model, hang_timeout=HANG) as executor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_in_vain, executor)
                await gate.entered.wait()
                await _pass(HANG_CHECKS)  # a layer has ended since the step began
                assert nursery.child_tasks
                await _pass(1)
            yield executor
    finally:
        gate.open()


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=repr)
async def test_a_thread_that_ends_is_told_and_replaced(end: BaseException) -> None:
    seen: list[bool] = []
    model = RecordingModel(during=raising(end))
    async with thread_executor(model) as executor:
        with pytest.raises(DeviceThreadEnded, match=repr(end)[:8]):
            await executor.run_step(StepJob(segments_of()))
        assert not executor.hangs
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(StepJob(segments_of()))
        await executor.recover()
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3
        await executor.call(lambda: seen.append(torch.is_inference_mode_enabled()))
        assert len(device_threads()) == 1
    assert seen == [True]
    assert device_threads() == []


async def test_a_thread_can_end_while_kv_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecordingModel()

    def move(transfer: Transfer) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(model, "transfer", move)
    async with thread_executor(model) as executor:
        with pytest.raises(DeviceThreadEnded):
            await executor.transfer([Copy(0, 1, 0, 4)])
        await executor.recover()
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


async def test_a_thread_that_hangs_is_given_up_and_waited_for(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _hanging(gate, RecordingModel(during=gate.during)) as executor, trio.open_nursery() as nursery:
        assert executor.hangs
        with pytest.raises(DeviceHangs):
            await executor.run_step(StepJob(segments_of()))
        nursery.start_soon(executor.recover)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks, "it still hangs"
        gate.open()
    assert device_threads() == []


async def test_a_process_that_was_stopped_has_not_seen_the_device_hang(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    results: list[StepResult] = []
    model = RecordingModel(during=gate.during)
    async with open_thread_executor(lambda: model, hang_timeout=HANG) as executor, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            results.append(await executor.run_step(StepJob(segments_of())))

        await gate.entered.wait()
        for _ in range(2):
            await wait_all_tasks_blocked()
            mock_clock.jump(1000 * HANG)
        await wait_all_tasks_blocked()
        gate.open()
    assert results[0].layers_run == 3


async def test_a_thread_that_came_back_goes_on(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _hanging(gate, RecordingModel(during=gate.during)) as executor:
        gate.open()
        await executor.recover()
        assert not executor.hangs
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


async def test_a_thread_that_hung_in_a_burst_is_waited_for_to_its_end(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on for as long as nobody tells it otherwise, and writes KV all that time."""
    monkeypatch.setattr(DeviceThread, "is_heard", lambda thread: True)  # though these steps take no time
    gate, later, layers = Gate(layer=1), Gate(layer=0), count()

    def during(index: int) -> None:
        number = next(layers)
        for gate_of, layer in ((gate, 4), (later, 6)):
            if number == layer:
                gate_of.during(index)

    model = RecordingModel(during=during)
    job = StepJob([Segment(0, 7, [3], sample=greedy(8))], burst=Burst(1, 5, lambda: True))
    async with open_thread_executor(lambda: model, hang_timeout=HANG) as executor:
        following = (await executor.run_step(job)).following
        assert following is not None

        async def wait_in_vain() -> None:
            with pytest.raises(DeviceHangs):
                await executor.run_step(following)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_in_vain)
            await gate.entered.wait()
            await _pass(HANG_CHECKS + 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.recover)
            gate.open()
            await later.entered.wait()
            await wait_all_tasks_blocked()
            assert nursery.child_tasks, "it is at the next step"
            later.open()
        assert [name for name, _ in model.calls].count("finish") == 5
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


async def test_a_thread_that_comes_back_to_end_is_replaced(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    first = [True]

    def during(index: int) -> None:
        gate.during(index)
        if index == 1 and first:
            first.clear()
            raise SystemExit

    async with _hanging(gate, RecordingModel(during=during)) as executor:
        gate.open()
        await executor.recover()
        assert (await executor.run_step(StepJob(segments_of()))).layers_run == 3


async def test_a_thread_that_hangs_does_not_hold_up_the_end(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _hanging(gate, RecordingModel(during=gate.during)):
        (thread,) = device_threads()
        assert thread.daemon
    await trio.to_thread.run_sync(thread.join)


async def test_what_hangs_is_given_up_under_a_cancel_too(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with thread_executor(RecordingModel()) as executor, trio.open_nursery() as nursery:
        nursery.cancel_scope.cancel()

        @nursery.start_soon
        async def caller() -> None:
            with pytest.raises(DeviceHangs):
                await executor.call(lambda: gate.during(1), HANG)
            gate.open()

        with trio.CancelScope(shield=True):
            await gate.entered.wait()
            await _pass(HANG_CHECKS)


async def test_a_device_that_refuses_all_work_is_lost_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.step.thread_executor.device_answers", lambda: False)
    async with thread_executor(
        RecordingModel(during=raising(RuntimeError("device-side assert triggered")))
    ) as executor:
        with pytest.raises(DeviceLost, match="device-side assert") as lost:
            await executor.run_step(StepJob(segments_of()))
    assert type(lost.value) is DeviceLost


async def test_no_new_thread_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with thread_executor(RecordingModel(during=raising(SystemExit()))) as executor:
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(StepJob(segments_of()))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(DeviceLost, match="can't start") as lost:
                await executor.recover()
        assert type(lost.value) is DeviceLost
