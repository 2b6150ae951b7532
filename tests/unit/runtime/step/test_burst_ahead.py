"""A burst of a model that can begin a step ahead: when it is asked to, and when that was in vain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampledToken, SampleSpec
from runtime.step.burst import RunningBurst
from runtime.step.executor import InlineExecutor, run_to_end
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment, SegmentOutput, StepResult, run_step
from tests.models.step_driver import RecordingModel, Ticks, greedy

GIVEN = 2  # layers of a step that is begun ahead


class Ahead(RecordingModel):
    """Begins steps ahead, and draws 100 after the first one, then 101, and so on.

    Args:
        during: called in each layer.
        reading: called with the number of the step, from 0 on, when what it drew is read.
        broken: numbers of steps whose rows come out non-finite.

    Attributes:
        begun: one entry for each step that was begun ahead: the slots in it.
    """

    def __init__(
        self,
        *,
        during: Callable[[int], object] = lambda index: None,
        reading: Callable[[int], object] = lambda step: None,
        broken: Collection[int] = (),
    ) -> None:
        super().__init__(during=during)
        self.begun: list[list[int]] = []
        self._reading = reading
        self._faulty = broken
        self._steps = 0

    def begin_next(self, batch: list[Segment]) -> int:
        """Note it."""
        self._record("begin next", batch)
        self.begun.append([one.slot for one in batch])
        return GIVEN

    def drop_next(self) -> None:
        """Note it."""
        self._record("drop next", [])

    def finish(self, batch: list[Segment]) -> list[SegmentOutput]:
        """Draw the tokens."""
        super().finish(batch)
        self._reading(self._steps)
        self._steps += 1
        token = SampledToken(99 + self._steps)
        return [SegmentOutput(self._steps - 1 not in self._faulty, (token,)) for _ in batch]

    @property
    def order(self) -> list[str]:
        """Return what was called, but for layers."""
        return [name for name, _ in self.calls if not name.startswith("layer")]


def _segments(count: int = 2, *, end_ids: tuple[int, ...] = ()) -> list[Segment]:
    return [Segment(slot, 7, [3 + slot], sample=replace(greedy(8), end_ids=end_ids)) for slot in range(count)]


async def _run(model: Ahead, segments: Sequence[Segment], burst: Burst | None) -> StepResult:
    return await InlineExecutor(model).run_step(StepJob(segments, burst=burst))


async def test_each_step_but_the_last_begins_before_the_one_before_is_read() -> None:
    model = Ahead()
    result = await _run(model, _segments(), Burst(3, 3, lambda: True))
    assert result.steps == 3
    assert model.order == ["begin", "begin next", "finish", "begin", "begin next", "finish", "begin", "finish"]


async def test_without_a_burst_nothing_is_begun() -> None:
    for burst in (None, Burst(1, 1, lambda: True)):
        model = Ahead()
        await _run(model, _segments(), burst)
        assert model.order == ["begin", "finish"]


async def test_what_follows_on_those_that_are_told_of_begins_ahead_as_well() -> None:
    model = Ahead()
    result = await _run(model, _segments(), Burst(2, 9, lambda: True))
    assert result.following is not None
    assert result.following.layers_ahead == GIVEN
    assert model.order == ["begin", "begin next", "finish", "begin", "begin next", "finish"]


@pytest.mark.parametrize("end", [100, 101])
async def test_a_token_that_ends_a_sequence_drops_what_was_begun(end: int) -> None:
    model = Ahead()
    result = await _run(model, [*_segments(1), *_segments(2, end_ids=(5, end))[1:]], Burst(5, 5, lambda: True))
    assert result.steps == end - 99
    assert result.following is None
    assert model.order[-3:] == ["begin next", "finish", "drop next"]


async def test_numbers_that_are_not_finite_drop_it() -> None:
    model = Ahead(broken=[1])
    await _run(model, _segments(), Burst(5, 5, lambda: True))
    assert model.order[-3:] == ["begin next", "finish", "drop next"]
    assert model.order.count("drop next") == 1


@pytest.mark.parametrize("failing", [0, 1])
async def test_tokens_that_cannot_be_read_drop_it(failing: int) -> None:
    def fail(step: int) -> None:
        if step == failing:
            raise ZeroDivisionError

    model = Ahead(reading=fail)
    with nullcontext() if failing else pytest.raises(ZeroDivisionError):
        await _run(model, _segments(), Burst(5, 5, lambda: True))
    assert model.order[-3:] == ["begin next", "finish", "drop next"]


async def test_something_that_comes_while_the_tokens_are_read_drops_it() -> None:
    comes = False

    def come(step: int) -> None:
        nonlocal comes
        comes = step == 1

    model = Ahead(reading=come)
    result = await _run(model, _segments(), Burst(2, 5, lambda: not comes))
    assert (result.steps, result.following) == (2, None)
    assert model.order[-3:] == ["begin next", "finish", "drop next"]


async def test_who_is_cancelled_while_the_tokens_are_read_is_told_of_the_layers_begun_for_nobody() -> None:
    segments, ticks = _segments(), Ticks()
    model = Ahead(reading=lambda step: step == 1 and segments[1].mark.set(ticks))
    running = RunningBurst(StepJob(segments, burst=Burst(5, 5, lambda: True)), model)
    while running.segments:
        step = run_step(model, running.segments, ticks, ahead=running)
        result = run_to_end(step)
        running.add(result)
    assert [one.layers_after_cancel for one in result.segments] == [0, GIVEN]
    assert [one.computed for one in running.result().segments] == [True, True]
    assert model.order[-1] == "drop next"


async def test_nothing_is_begun_for_who_is_cancelled_before() -> None:
    segments, layers = _segments(), iter(range(99))
    model = Ahead(during=lambda _: next(layers) == 2 and segments[0].mark.set(lambda: 0.0))
    await _run(model, segments, Burst(5, 5, lambda: True))
    assert model.order == ["begin", "finish"]


async def test_nor_where_a_row_has_left() -> None:
    segments = _segments()
    model = Ahead(during=lambda index: index == 0 and segments[0].mark.set(lambda: 0.0))
    await _run(model, segments, Burst(5, 5, lambda: True))
    assert model.order == ["begin", "shrink", "finish"]


async def test_nor_where_something_has_come() -> None:
    model = Ahead()
    await _run(model, _segments(), Burst(5, 5, lambda: False))
    assert model.order == ["begin", "finish"]


@pytest.mark.parametrize("is_heard", [True, False])
def test_nor_behind_those_that_are_told_of_while_nobody_hears(is_heard: bool) -> None:
    model = Ahead()
    running = RunningBurst(StepJob(_segments(), burst=Burst(2, 9, lambda: True)), model, lambda: is_heard)
    while running.segments:
        running.add(run_to_end(run_step(model, running.segments, Ticks(), ahead=running)))
    assert len(model.begun) == 1 + is_heard
    assert (running.result().following is not None) is is_heard


async def test_who_looks_back_at_tokens_is_waited_for() -> None:
    looks_back = SampleSpec(SamplingParams(seed=3, presence_penalty=1.0), 8, 1, context=[3])
    model = Ahead()
    result = await _run(model, [*_segments(1), Segment(1, 7, [4], sample=looks_back)], Burst(4, 4, lambda: True))
    assert result.steps == 4
    assert not model.begun


def test_who_is_dropped_from_a_step_that_was_begun_ahead_has_had_its_layers() -> None:
    """Before any layer was asked for, but the device has some."""
    segments = _segments()
    segments[1].mark.set(lambda: 0.5)
    running = RunningBurst(StepJob(segments, burst=Burst(2, 9, lambda: True), layers_ahead=GIVEN), Ahead())
    result = run_to_end(run_step(Ahead(), segments, Ticks(), ahead=running))
    assert result.segments[1].layers_after_cancel == GIVEN
    assert result.segments[1].last_kernel_at is not None
    assert not result.segments[1].computed
