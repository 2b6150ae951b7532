"""The three executors: one result, each in its own time; and the two that need no thread."""

from __future__ import annotations

from collections.abc import Callable

import outcome
import pytest
import torch
import trio
from trio.testing import MockClock

from runtime.step.executor import Executor, InlineExecutor, SimulatedExecutor
from runtime.step.job import StepJob
from runtime.step.step import Segment, StepResult
from runtime.step.thread_executor import FEW_ROWS, open_thread_executor
from runtime.step.transfer import CopyPage, Save, Transfer
from runtime.testing.simulated import SimulatedModel
from tests.models.step_driver import RecordingModel, greedy, pages_of
from tests.unit.runtime.step.executors import segments_of


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
    monkeypatch.setattr("runtime.step.thread_executor.ThreadTuner", Choice)
    async with open_thread_executor(load, adapt_threads=True) as executor:
        for rows in (2, FEW_ROWS + 1):
            await executor.run_step(StepJob([Segment(0, 0, [7] * rows, sample=greedy(rows))]))
        cancelled = Segment(1, 0, [7], pages=pages_of(1, 8))
        cancelled.mark.set(lambda: 0)
        await executor.run_step(StepJob([Segment(0, 0, [7]), cancelled]))
        await executor.call(lambda: torch.set_num_threads(before))
    assert used[0] == used[-1] == 1
    assert set(used) == {1, 2}
    assert observed == [(False, 2)]


# --- one result ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["thread", "inline", "simulated"])
async def test_executors_agree(kind: str) -> None:
    model = SimulatedModel(slots=3, context=8)
    segments = segments_of()
    segments[1].mark.set(lambda: 0)

    async def run(executor: Executor) -> StepResult:
        return await executor.run_step(StepJob(segments))

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
    result = await executor.run_step(StepJob(segments_of(2)))  # 4 rows
    assert executor.clock() - started == 5.0
    assert (result.started_at - started, result.finished_at - started) == (0.0, 5.0)


async def test_a_simulated_cancel_costs_the_rest_of_its_layer(autojump_clock: MockClock) -> None:
    executor = SimulatedExecutor(RecordingModel(5), layer_seconds=lambda rows: 1.0)
    segments = segments_of(2)
    started = executor.clock()

    async def cancel(segment: Segment, after: float) -> None:
        await trio.sleep(after)
        segment.mark.set(executor.clock)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel, segments[0], 1.5)
        nursery.start_soon(cancel, segments[1], 3.25)
        result = await executor.run_step(StepJob(segments))
    first, second = result.segments
    assert first.last_kernel_at == started + 2
    assert second.last_kernel_at == started + 4 == result.finished_at
    assert (first.layers_after_cancel, second.layers_after_cancel, result.layers_run) == (1, 1, 4)


async def test_a_simulated_step_is_not_cut_short_by_its_caller_s_cancel(autojump_clock: MockClock) -> None:
    executor = SimulatedExecutor(RecordingModel(4), layer_seconds=lambda rows: 1.0)
    started = executor.clock()
    with trio.move_on_after(1.5):
        result = await executor.run_step(StepJob(segments_of()))
    assert result.finished_at - started == 4.0


@pytest.mark.parametrize("make", [InlineExecutor, lambda model: SimulatedExecutor(model, lambda rows: 0.0)])
async def test_the_others_raise_what_the_model_raises(make: Callable[[RecordingModel], Executor]) -> None:
    def fail(index: int) -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        await make(RecordingModel(during=fail)).run_step(StepJob(segments_of()))


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

        await executor.run_step(StepJob(segments_of()))
        await executor.run_step(StepJob(segments_of()))
        assert turns == ["other"]


class Moving(RecordingModel):
    """Carries out transfers by noting them, but one."""

    def __init__(self, failing: Transfer | None = None) -> None:
        super().__init__()
        self.carried_out: list[Transfer] = []
        self._failing = failing

    def transfer(self, transfer: Transfer) -> None:
        """Note it."""
        if transfer == self._failing:
            raise RuntimeError("the device says no")
        self.carried_out.append(transfer)


async def test_a_page_is_copied_for_the_drafter_too_and_counts_where_both_have_it() -> None:
    """Whatever else is moved is the target's alone, and carried out behind what failed, too."""
    page, save = CopyPage(0, 1, 2, 4), Save(0, 0, 4)
    for failing in (None, "target", "drafter"):
        target, drafter = (Moving(page if name == failing else None) for name in ("target", "drafter"))
        results = await InlineExecutor(target, drafter).transfer([page, save])
        assert [type(result) for result in results] == [outcome.Error if failing else outcome.Value, outcome.Value]
        assert target.carried_out == ([save] if failing else [page, save])
        assert drafter.carried_out == ([] if failing == "drafter" else [page])
