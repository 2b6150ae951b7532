"""The three executors: one result, each in its own time, and cancels that reach a running step."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import torch
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded
from runtime.step.executor import TURNS, InlineExecutor, SimulatedExecutor, ThreadExecutor, open_thread_executor
from runtime.step.step import Segment
from runtime.step.threads import FEW_ROWS
from runtime.step.transfer import Copy
from runtime.testing.simulated import SimulatedModel
from tests.models.stepping import RecordingModel, greedy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from runtime.step.executor import Executor
    from runtime.step.step import StepResult
    from runtime.step.transfer import Transfer

PATIENCE = 20  # seconds, spent by a test that fails only


def _segments(count: int = 3) -> list[Segment]:
    return [Segment(slot, 0, [slot, 7], sample=greedy(2)) for slot in range(count)]


def _thread(model: RecordingModel) -> AbstractAsyncContextManager[ThreadExecutor[RecordingModel]]:
    return open_thread_executor(lambda: model)


async def test_a_thread_may_adapt_how_many_threads_its_steps_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of few rows use those that are chosen, steps of many all; what is learnt is of whole steps of few rows."""
    used: list[int] = []
    observed: list[object] = []

    class Choice:
        threads = 1

        def __init__(self, most: int) -> None:
            assert most == 2

        def observe(self, kind: object, seconds: float, computing: float, now: float) -> None:
            assert seconds > 0
            assert computing >= 0
            observed.append(kind)

    class Watched(RecordingModel):
        def _record(self, name: str, batch: list[Segment]) -> None:
            used.append(torch.get_num_threads())
            super()._record(name, batch)

    def load() -> Watched:
        torch.set_num_threads(2)
        return Watched()

    before = torch.get_num_threads()
    monkeypatch.setattr("runtime.step.threads.ThreadChoice", Choice)
    async with open_thread_executor(load, adapt_threads=True) as executor:
        for rows in (2, FEW_ROWS + 1):
            await executor.run_step([Segment(0, 0, [7] * rows, sample=greedy(rows))])
        cancelled = Segment(1, 0, [7])
        cancelled.mark.set(0)
        await executor.run_step([Segment(0, 0, [7]), cancelled])
        await executor.call(lambda: torch.set_num_threads(before))
    assert used[0] == used[-1] == 1
    assert set(used) == {1, 2}
    assert observed == [(False, 2)]


# --- one result ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["thread", "inline", "simulated"])
async def test_executors_agree(kind: str) -> None:
    model = SimulatedModel(slots=3, context=8)
    segments = _segments()
    segments[1].mark.set(0)

    async def run(executor: Executor) -> StepResult:
        return await executor.run_step(segments)

    if kind == "thread":
        async with open_thread_executor(lambda: model) as executor:
            result = await run(executor)
    else:
        result = await run(InlineExecutor(model) if kind == "inline" else SimulatedExecutor(model, lambda rows: 0.0))

    tokens = [[token.token_id for token in segment.tokens] for segment in result.segments]
    assert tokens == [model.continuation([0, 7], 1), [], model.continuation([2, 7], 1)]
    assert [segment.computed for segment in result.segments] == [True, False, True]
    assert result.layers_run == model.num_layers


# --- the simulation -----------------------------------------------------------------------------------------------


async def test_a_simulated_step_takes_its_layers_time(autojump_clock: MockClock) -> None:
    executor = SimulatedExecutor(RecordingModel(5), layer_seconds=lambda rows: rows * 0.25)
    started = executor.clock()
    result = await executor.run_step(_segments(2))  # 4 rows
    assert executor.clock() - started == 5.0
    assert (result.started_at - started, result.finished_at - started) == (0.0, 5.0)


async def test_a_simulated_cancel_costs_the_rest_of_its_layer(autojump_clock: MockClock) -> None:
    executor = SimulatedExecutor(RecordingModel(5), layer_seconds=lambda rows: 1.0)
    segments = _segments(2)
    started = executor.clock()

    async def cancel(segment: Segment, after: float) -> None:
        await trio.sleep(after)
        segment.mark.set(executor.clock())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel, segments[0], 1.5)
        nursery.start_soon(cancel, segments[1], 3.25)
        result = await executor.run_step(segments)
    first, second = result.segments
    assert first.last_kernel_at == started + 2
    assert second.last_kernel_at == started + 4 == result.finished_at
    assert (first.layers_after_cancel, second.layers_after_cancel, result.layers_run) == (1, 1, 4)


async def test_a_simulated_step_is_not_cut_short_by_its_caller_s_cancel(autojump_clock: MockClock) -> None:
    executor = SimulatedExecutor(RecordingModel(4), layer_seconds=lambda rows: 1.0)
    started = executor.clock()
    with trio.move_on_after(1.5):
        result = await executor.run_step(_segments())
    assert result.finished_at - started == 4.0


# --- the thread ---------------------------------------------------------------------------------------------------


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
        segments = _segments()
        for layer in range(3):
            segments[layer].mark.set(0)
            await executor.run_step(segments)
        await executor.call(look)
    assert len({thread for thread, _ in seen}) == 1
    assert seen[0][0] != threading.get_ident()
    assert all(inference for _, inference in seen)
    assert not torch.is_inference_mode_enabled()


async def test_what_the_model_raises_is_raised_and_the_thread_goes_on() -> None:
    async with _thread(RecordingModel(during=raising(RuntimeError("out of memory")))) as executor:
        with pytest.raises(RuntimeError, match="out of memory"):
            await executor.run_step(_segments())
        assert (await executor.run_step(_segments())).layers_run == 3


def raising(*errors: BaseException) -> Callable[[int], None]:
    """For `during`: raises each of these once, one in a step."""
    left = iter(errors)

    def during(index: int) -> None:
        if (error := next(left, None)) is not None:
            raise error

    return during


class Gate:
    """Holds the device thread in one layer until the Trio side lets it go on."""

    def __init__(self, layer: int) -> None:
        self.entered = trio.Event()
        self._layer = layer
        self._opened = threading.Event()
        self._trio_token = trio.lowlevel.current_trio_token()

    def during(self, index: int) -> None:
        if index == self._layer:
            self._trio_token.run_sync_soon(self.entered.set)
            assert self._opened.wait(PATIENCE)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.parametrize("cancelled", [(1,), (0, 2), (0, 1, 2)], ids=str)
async def test_a_cancel_reaches_a_running_step(cancelled: tuple[int, ...]) -> None:
    gate = Gate(layer=1)
    segments = _segments()
    async with _thread(RecordingModel(4, during=gate.during)) as executor, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def cancel() -> None:
            await gate.entered.wait()
            for i in cancelled:
                segments[i].mark.set(executor.clock())
            gate.open()

        result = await executor.run_step(segments)
    assert [i for i, segment in enumerate(result.segments) if not segment.computed] == list(cancelled)
    assert all(result.segments[i].layers_after_cancel == 1 for i in cancelled)
    assert result.layers_run == (2 if len(cancelled) == 3 else 4)


async def test_a_cancelled_caller_waits_for_the_end_of_the_step() -> None:
    gate = Gate(layer=2)
    model = RecordingModel(during=gate.during)
    async with _thread(model) as executor, trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        results: list[StepResult] = []

        @nursery.start_soon
        async def caller() -> None:
            with scope:
                results.append(await executor.run_step(_segments()))

        await gate.entered.wait()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert results == []
        gate.open()
    assert results[0].layers_run == 3
    assert model.calls[-1][0] == "finish"


async def test_the_event_loop_is_free_during_a_step() -> None:
    gate = Gate(layer=0)
    async with _thread(RecordingModel(during=gate.during)) as executor, trio.open_nursery() as nursery:
        nursery.start_soon(executor.run_step, _segments())
        await gate.entered.wait()
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        gate.open()


# --- its life -----------------------------------------------------------------------------------------------------


def _device_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cede-device"]


async def test_a_call_after_the_end_is_refused() -> None:
    async with _thread(RecordingModel()) as executor:
        assert len(_device_threads()) == 1
    assert _device_threads() == []
    with pytest.raises(DeviceLost):
        await executor.run_step(_segments())


async def test_a_step_in_progress_ends_before_the_thread_does() -> None:
    model = RecordingModel()
    async with _thread(model) as executor:
        with trio.CancelScope() as scope:
            scope.cancel()
            await executor.run_step(_segments())
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
    assert _device_threads() == []


# --- what can be lost ---------------------------------------------------------------------------------------------

HANG = 60.0  # seconds of virtual time


async def _pass(turns: int) -> None:
    """Let so many looks at the thread pass."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    for _ in range(turns):
        await wait_all_tasks_blocked()
        clock.jump(HANG / TURNS)
    await wait_all_tasks_blocked()


@asynccontextmanager
async def _hanging(gate: Gate, model: RecordingModel) -> AsyncIterator[ThreadExecutor[RecordingModel]]:
    """An executor whose thread has been given up in `gate`, which is opened at the end."""

    async def wait_in_vain(executor: ThreadExecutor[RecordingModel]) -> None:
        with pytest.raises(DeviceHangs, match="60 s"):
            await executor.run_step(_segments())

    try:
        async with open_thread_executor(lambda: model, hang_timeout=HANG) as executor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_in_vain, executor)
                await gate.entered.wait()
                await _pass(TURNS)  # a layer has ended since the step began
                assert nursery.child_tasks
                await _pass(1)
            yield executor
    finally:
        gate.open()


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=repr)
async def test_a_thread_that_ends_is_told_and_replaced(end: BaseException) -> None:
    seen: list[bool] = []
    model = RecordingModel(during=raising(end))
    async with _thread(model) as executor:
        with pytest.raises(DeviceThreadEnded, match=repr(end)[:8]):
            await executor.run_step(_segments())
        assert not executor.hangs
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(_segments())
        await executor.recover()
        assert (await executor.run_step(_segments())).layers_run == 3
        await executor.call(lambda: seen.append(torch.is_inference_mode_enabled()))
        assert len(_device_threads()) == 1
    assert seen == [True]
    assert _device_threads() == []


async def test_a_thread_can_end_while_kv_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecordingModel()

    def move(transfer: Transfer) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(model, "transfer", move)
    async with _thread(model) as executor:
        with pytest.raises(DeviceThreadEnded):
            await executor.transfer([Copy(0, 1, 0, 4)])
        await executor.recover()
        assert (await executor.run_step(_segments())).layers_run == 3


async def test_a_thread_that_hangs_is_given_up_and_waited_for(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _hanging(gate, RecordingModel(during=gate.during)) as executor, trio.open_nursery() as nursery:
        assert executor.hangs
        with pytest.raises(DeviceHangs):
            await executor.run_step(_segments())
        nursery.start_soon(executor.recover)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks, "it still hangs"
        gate.open()
    assert _device_threads() == []


async def test_a_process_that_was_stopped_has_not_seen_the_device_hang(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    results: list[StepResult] = []
    model = RecordingModel(during=gate.during)
    async with open_thread_executor(lambda: model, hang_timeout=HANG) as executor, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            results.append(await executor.run_step(_segments()))

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
        assert (await executor.run_step(_segments())).layers_run == 3


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
        assert (await executor.run_step(_segments())).layers_run == 3


async def test_a_thread_that_hangs_does_not_hold_up_the_end(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _hanging(gate, RecordingModel(during=gate.during)):
        (thread,) = _device_threads()
        assert thread.daemon
    await trio.to_thread.run_sync(thread.join)


async def test_what_hangs_is_given_up_under_a_cancel_too(mock_clock: MockClock) -> None:
    gate = Gate(layer=1)
    async with _thread(RecordingModel()) as executor, trio.open_nursery() as nursery:
        nursery.cancel_scope.cancel()

        @nursery.start_soon
        async def caller() -> None:
            with pytest.raises(DeviceHangs):
                await executor.call(lambda: gate.during(1), HANG)
            gate.open()

        with trio.CancelScope(shield=True):
            await gate.entered.wait()
            await _pass(TURNS)


async def test_a_device_that_refuses_all_work_is_lost_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.step.executor.device_answers", lambda: False)
    async with _thread(RecordingModel(during=raising(RuntimeError("device-side assert triggered")))) as executor:
        with pytest.raises(DeviceLost, match="device-side assert") as lost:
            await executor.run_step(_segments())
    assert type(lost.value) is DeviceLost


async def test_no_new_thread_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with _thread(RecordingModel(during=raising(SystemExit()))) as executor:
        with pytest.raises(DeviceThreadEnded):
            await executor.run_step(_segments())
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(DeviceLost, match="can't start") as lost:
                await executor.recover()
        assert type(lost.value) is DeviceLost


@pytest.mark.parametrize("make", [InlineExecutor, lambda model: SimulatedExecutor(model, lambda rows: 0.0)])
async def test_the_others_raise_what_the_model_raises(make: Callable[[RecordingModel], Executor]) -> None:
    def fail(index: int) -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        await make(RecordingModel(during=fail)).run_step(_segments())


@pytest.mark.parametrize("kind", ["inline", "simulated"])
async def test_steps_without_a_thread_let_other_tasks_run(kind: str) -> None:
    """A loop that runs step after step would starve them."""
    model = RecordingModel()
    executor = InlineExecutor(model) if kind == "inline" else SimulatedExecutor(model, lambda rows: 0.0)
    turns: list[str] = []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def other() -> None:
            turns.append("other")

        await executor.run_step(_segments())
        await executor.run_step(_segments())
        assert turns == ["other"]
