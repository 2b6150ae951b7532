"""A burst: what its steps run, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest

from runtime.errors import DeviceLost
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampledToken, SampleSpec
from runtime.step.burst import RunningBurst
from runtime.step.executor import InlineExecutor
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment, SegmentOutput, SegmentResult, StepResult
from tests.models.step_driver import RecordingModel, greedy

ALWAYS = Burst(5, 5, lambda: True)


class Counting(RecordingModel):
    """Draws 100 after a slot's first step, then 101, and so on.

    Args:
        before: called before a step begins, with its number from 0 on.
        during: called in each layer.
        broken: slots and numbers of steps, whose rows come out non-finite.
    """

    def __init__(
        self,
        before: Callable[[int], None] = lambda step: None,
        during: Callable[[int], None] = lambda index: None,
        broken: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__(during=during)
        self.given: list[list[Segment]] = []
        self._before = before
        self._faults = broken

    def begin(self, segments: Sequence[Segment]) -> list[Segment]:
        """Note what the step is given."""
        self._before(len(self.given))
        self.given.append(list(segments))
        return super().begin(segments)

    def finish(self, batch: list[Segment]) -> list[SegmentOutput]:
        """Draw the tokens."""
        step = len(self.given) - 1
        return [SegmentOutput((one.slot, step) not in self._faults, (SampledToken(100 + step),)) for one in batch]


def _segments(count: int = 2, *, end_ids: tuple[int, ...] = ()) -> list[Segment]:
    return [Segment(slot, 7, [3 + slot], sample=replace(greedy(8), end_ids=end_ids)) for slot in range(count)]


async def _run(model: Counting, segments: Sequence[Segment], burst: Burst | None = ALWAYS) -> StepResult:
    return await InlineExecutor(model).run_step(StepJob(segments, burst=burst))


def _tokens(result: StepResult) -> list[list[int]]:
    return [[token.token_id for token in segment.tokens] for segment in result.segments]


async def test_each_step_reads_what_the_one_before_drew() -> None:
    model = Counting()
    result = await _run(model, _segments())
    rows = [[(one.slot, one.start, list(one.token_ids)) for one in step] for step in model.given]
    drawn = [[(slot, 7 + step, [99 + step]) for slot in (0, 1)] for step in range(1, 5)]
    assert rows == [[(0, 7, [3]), (1, 7, [4])], *drawn]
    assert _tokens(result) == [[100, 101, 102, 103, 104]] * 2
    assert (result.steps, result.layers_run) == (5, 15)
    assert [(segment.computed, segment.rows) for segment in result.segments] == [(True, 5)] * 2
    assert result.started_at < result.layer_ends[0] < result.layer_ends[-1] < result.finished_at
    assert [segment.last_kernel_at for segment in result.segments] == [pytest.approx(result.finished_at, abs=1.0)] * 2


async def test_each_token_is_drawn_as_if_the_one_before_had_been_asked_for() -> None:
    """With the seed, its position is all that a token's randomness depends on; a penalty looks back."""
    model = Counting()
    sample = SampleSpec(SamplingParams(frequency_penalty=1.0, seed=3), position=8, generated=2, context=[5, 6])
    await _run(model, [Segment(0, 7, [3], sample=sample)])
    specs = [step[0].sample for step in model.given]
    assert [(spec.position, spec.generated) for spec in specs if spec] == [(8 + i, 2 + i) for i in range(5)]
    assert [list(spec.context) for spec in specs if spec] == [[5, 6, *range(100, 100 + i)] for i in range(5)]


async def test_each_step_reads_the_state_that_the_one_before_wrote_and_none_writes_what_it_reads() -> None:
    model = Counting()
    segment = replace(_segments(1)[0], state=4, next_states=((1, 5),), spare_states=(6, 7))
    await _run(model, [segment, _segments(2)[1]])
    states = [(one.state, one.next_states) for one, _ in model.given]
    assert states == [(4, ((1, 5),)), (5, ((1, 6),)), (6, ((1, 7),)), (7, ((1, 5),)), (5, ((1, 6),))]
    assert [(one.state, one.next_states, one.spare_states) for _, one in model.given] == [(None, (), ())] * 5


@pytest.mark.parametrize(
    ("rows", "goes_on", "states"),
    [
        (1, False, {7: 4, 8: 5}),
        (1, True, {8: 5}),
        (2, False, {8: 5, 9: 6}),
        (4, False, {10: 7, 11: 5}),
        (4, True, {11: 5}),
    ],
)
def test_a_burst_leaves_its_last_states(rows: int, goes_on: bool, states: dict[int, int]) -> None:
    segment = replace(_segments(1)[0], state=4, next_states=((1, 5),), spare_states=(6, 7))
    assert segment.states_after(rows, goes_on=goes_on) == states


def test_a_step_leaves_the_states_of_the_rows_that_count() -> None:
    segment = Segment(0, 7, [1, 2, 3, 4], state=4, next_states=((2, 5), (3, 6), (4, 7)))
    assert segment.states_after(3, goes_on=False) == {9: 5, 10: 6}


async def test_without_a_burst_there_is_one_step() -> None:
    for burst in (None, Burst(1, 1, lambda: True)):
        model = Counting()
        result = await _run(model, _segments(), burst)
        assert (result.steps, len(model.given), _tokens(result)) == (1, 1, [[100], [100]])


async def test_it_asks_before_each_step_but_the_first() -> None:
    answers = iter([True, True, False])
    model = Counting()
    result = await _run(model, _segments(), Burst(9, 9, lambda: next(answers)))
    assert (result.steps, len(model.given)) == (3, 3)
    assert next(answers, None) is None


@pytest.mark.parametrize("end", range(100, 104))
async def test_it_ends_with_a_token_that_ends_a_sequence(end: int) -> None:
    segments = [*_segments(1), *_segments(2, end_ids=(5, end))[1:]]
    result = await _run(Counting(), segments)
    assert _tokens(result) == [list(range(100, end + 1))] * 2


@pytest.mark.parametrize("layer", range(3))
async def test_who_is_cancelled_in_a_later_step_keeps_what_was_computed_before(layer: int) -> None:
    segments, layers = _segments(), count()

    def cancel(_: int) -> None:
        if next(layers) == 2 * 3 + layer:  # of the third step
            segments[1].mark.set(lambda: 0.0)

    result = await _run(Counting(during=cancel), segments)
    last = layer == 2  # nothing is left to be dropped
    assert _tokens(result) == [[100, 101, 102], [100, 101, 102] if last else [100, 101]]
    assert [(one.computed, one.rows) for one in result.segments] == [(True, 3), (True, 3)]
    assert (result.steps, result.segments[0].layers_after_cancel) == (3, 0)


async def test_who_is_cancelled_between_two_steps_has_no_row_in_the_next() -> None:
    segments = _segments()

    def cancel(step: int) -> None:
        if step == 2:
            segments[0].mark.set(lambda: 0.0)

    result = await _run(Counting(before=cancel), segments)
    assert _tokens(result) == [[100, 101], [100, 101, 102]]
    assert [(one.rows, one.layers_after_cancel) for one in result.segments] == [(2, 0), (3, 0)]


async def test_who_is_not_finite_in_a_later_step_has_nothing_of_it() -> None:
    """So the sequence is given another step, which tells; others have theirs."""
    result = await _run(Counting(broken=[(1, 2)]), _segments())
    assert _tokens(result) == [[100, 101, 102], [100, 101]]
    assert [(one.computed, one.finite) for one in result.segments] == [(True, True)] * 2


async def test_who_is_not_finite_in_the_first_step_is_told_so() -> None:
    result = await _run(Counting(broken=[(1, 0)]), _segments())
    assert [(one.computed, one.finite) for one in result.segments] == [(True, True), (False, False)]
    assert result.steps == 1


@pytest.mark.parametrize("raises", [True, False])
async def test_a_step_that_does_not_count_leaves_nothing_older_than_what_it_went_on_from(*, raises: bool) -> None:
    """The step behind it may have begun, and writes where that older state is."""

    def fail(step: int) -> None:
        if raises and step == 3:
            raise ZeroDivisionError

    segment = replace(_segments(1)[0], state=4, next_states=((1, 5),), spare_states=(6, 7))
    (result,) = (await _run(Counting(before=fail, broken=[(0, 3)]), [segment])).segments
    assert segment.states_after(len(result.tokens), result.rows, goes_on=False) == {10: 7}


@pytest.mark.parametrize("failing", [0, 3])
async def test_a_step_that_raises_ends_the_burst_with_what_came_before(failing: int) -> None:
    def fail(step: int) -> None:
        if step == failing:
            raise ZeroDivisionError

    model = Counting(before=fail)
    if failing:
        assert _tokens(await _run(model, _segments())) == [[100, 101, 102]] * 2
        return
    with pytest.raises(ZeroDivisionError):
        await _run(model, _segments())


async def test_a_device_that_is_lost_in_a_burst_is_not_kept_quiet_about() -> None:
    def fail(step: int) -> None:
        if step == 3:
            raise DeviceLost("it is gone")

    with pytest.raises(DeviceLost):
        await _run(Counting(before=fail), _segments())


def test_a_burst_that_has_not_begun_runs_its_first_step() -> None:
    segments = _segments()
    assert RunningBurst(StepJob(segments), None).segments == segments


@pytest.mark.parametrize("is_heard", [True, False])
def test_no_more_is_begun_than_what_is_told_of_together_while_nobody_hears(is_heard: bool) -> None:
    result = StepResult((SegmentResult(True, 0.0, (SampledToken(5),)),), 0.0, 1.0, ())
    running = RunningBurst(StepJob(_segments(1), burst=Burst(2, 9, lambda: True)), None, lambda: is_heard)
    running.add(result)
    assert len(running.segments) == 1
    running.add(result)
    assert not running.segments
    assert (running.result().following is not None) is is_heard
