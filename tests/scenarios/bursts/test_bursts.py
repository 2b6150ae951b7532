"""Fast steps follow one another on the device while nobody asks for anything else, and nobody is worse off for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import pytest
import trio

from actors.core.events import StepBegins, StepEnded
from actors.core.generation import FinishReason
from actors.core.observer import Observer
from actors.scheduling.bursts import MOST_SECONDS
from runtime.loading.served import Proposer
from runtime.step.step import Segment
from runtime.testing.faults import Chaos, ClockJump, DeviceError, FaultPlan, NotFinite
from runtime.text.stop_strings import StopAutomaton
from tests.fakes.simulation import Simulation, ask, open_simulation, prompt, simulated, windowed
from tests.scenarios.engine.together import STEP, same_time, together

BURST = 5.5 * STEP  # in which five steps are told of together
SHORT = 3.9 * STEP  # in which each step is told of by itself
LAYERS = 5


def bursting(**more: Any) -> AbstractAsyncContextManager[Simulation]:  # noqa: ANN401
    """A simulation whose steps all take the same, in bursts of five."""
    return open_simulation(**{"step_seconds": same_time, "layers": LAYERS, "burst_seconds": BURST, **more})


class Bursts(Observer):
    """Counts of decode rows: how many steps at a time, in `steps`, of how many sequences, in `rows`.

    `goes_on` says whether the device had begun the next step by then.
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.goes_on: list[bool] = []
        self.rows: list[int] = []
        self._decodes = False

    def step_begins(self, event: StepBegins) -> None:
        """Note what it is of."""
        self._decodes = all(part.phase.value == "decode" for part in event.parts)
        if self._decodes:
            self.rows.append(len(event.parts))

    def step_ended(self, event: StepEnded) -> None:
        """Note how many there were."""
        if self._decodes:
            self.steps.append(event.result.steps)
            self.goes_on.append(event.result.following is not None)


@simulated(seeds=4)
async def test_the_tokens_are_those_of_single_steps_and_come_in_bursts() -> None:
    async with bursting() as sim:
        await sim.client(ask("first", prompt(4, start=30), max_tokens=4))  # shows what a step takes
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=18))
        assert story.tokens() == sim.model.continuation(prompt(8), 18)
        assert story.finished().reason is FinishReason.LENGTH
        assert bursts.steps == [5, 5, 5, 2]
        gaps = [round(later - sooner, 6) for sooner, later in zip(story.times, story.times[1:], strict=False)]
        assert [gap for gap in gaps if gap] == pytest.approx([5 * STEP, 5 * STEP, 5 * STEP, 2 * STEP])


@simulated(seeds=4)
async def test_several_sequences_go_on_together_in_bursts() -> None:
    async with bursting() as sim:
        await sim.client(ask("first", prompt(4, start=30), max_tokens=4))
        bursts = Bursts()
        stories = [sim.expect(ask(f"r{n}", prompt(8, start=n + 3), max_tokens=8 + n)) for n in range(2)]
        with sim.engine.observed_by(bursts):
            await together(sim, *((story, {}) for story in stories))
        for n, story in enumerate(stories):
            assert story.tokens() == sim.model.continuation(prompt(8, start=n + 3), 8 + n)
        assert max(steps for steps, rows in zip(bursts.steps, bursts.rows, strict=True) if rows == 2) > 1


async def _alone(burst_seconds: float | None) -> list[int]:
    """Return how many steps each call has that serves one generation of nine tokens."""
    async with bursting(burst_seconds=burst_seconds) as sim:
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            await sim.client(ask("a", prompt(8), max_tokens=9))
        return bursts.steps


@simulated(seeds=4)
async def test_without_bursts_each_step_is_by_itself() -> None:
    assert await _alone(burst_seconds=None) == [1] * 8


@simulated(seeds=4)
async def test_slow_steps_are_told_of_one_by_one() -> None:
    assert await _alone(burst_seconds=SHORT) == [1] * 8


@simulated(seeds=8)
async def test_who_comes_meanwhile_waits_for_one_step_and_not_for_the_burst() -> None:
    async with bursting() as sim:
        old, new = (sim.expect(ask(name, prompt(8, start=n), max_tokens=40)) for n, name in ((3, "old"), (5, "new")))
        await together(sim, (old, {}), (new, {"arrives": 20.3 * STEP}))
        assert new.times[0] == pytest.approx(22 * STEP)  # the end of the one that ran, and one for its prompt
        assert new.tokens() == sim.model.continuation(prompt(8, start=5), 40)


@simulated(seeds=8)
async def test_a_hang_up_in_a_burst_ends_it_at_the_next_layer_and_keeps_what_was_drawn() -> None:
    async with bursting() as sim:
        story = await sim.client(ask("a", prompt(8), max_tokens=40), hang_up_at=22.35 * STEP)
        assert story.receipt.layers_after_cancel <= 1
        assert story.receipt.phase == "decode"
        assert story.receipt.last_kernel_at is not None
        assert story.receipt.last_kernel_at - story.receipt.detected_at <= STEP / LAYERS + 1e-6
        # 22 steps had ended: one for the prompt of 8, and one for each row behind it; of the next a layer had run.
        assert (story.receipt.computed_tokens, story.receipt.kept_tokens) == (8 + 21 + 1, 8 + 21)
        again = await sim.client(ask("b", [*prompt(8), *sim.model.continuation(prompt(8), 21)], max_tokens=2))
        assert again.finished().cached_tokens == 8 + 20  # all but the last, which is read again for its logits


@pytest.mark.parametrize("seconds", [BURST, SHORT])
@simulated(seeds=4)
async def test_who_leaves_when_the_device_has_just_gone_on_has_the_slot_until_that_step_ends(seconds: float) -> None:
    async with bursting(burst_seconds=seconds) as sim:
        victim, other = (sim.expect(ask(name, prompt(8, start=n), max_tokens=40)) for n, name in ((3, "a"), (5, "b")))
        look = sim.watch.device.target.step_begins

        def leave_at_once(segments: Sequence[Segment]) -> None:
            look(segments)
            if max(segment.end for segment in segments) == 24:
                victim.connection.cancel()

        sim.watch.device.target.step_begins = leave_at_once
        await together(sim, (victim, {}), (other, {}))
        assert victim.receipt.layers_after_cancel <= 1
        assert other.tokens() == sim.model.continuation(prompt(8, start=5), 40)


@simulated(seeds=8)
async def test_who_shares_a_burst_with_one_that_hangs_up_loses_nothing() -> None:
    async with bursting() as sim:
        victim, other = (sim.expect(ask(name, prompt(8, start=n), max_tokens=40)) for n, name in ((3, "a"), (5, "b")))
        await together(sim, (victim, {"hang_up_at": 24.5 * STEP}), (other, {}))
        assert victim.receipt.layers_after_cancel <= 1
        assert other.tokens() == sim.model.continuation(prompt(8, start=5), 40)


@pytest.mark.parametrize("place", range(3, 14))
@simulated()
async def test_an_end_token_ends_the_burst_in_which_it_is_drawn(place: int) -> None:
    async with open_simulation() as sim:
        free = sim.model.continuation(prompt(8), 30)
    async with bursting(end_ids=(free[place],)) as sim:
        story = await sim.client(ask("a", prompt(8), max_tokens=30))
        end = free.index(free[place])
        assert story.tokens() == free[: end + 1]
        assert story.finished().reason is FinishReason.STOP
        assert trio.current_time() == pytest.approx((1 + end) * STEP)  # no step behind the end


@pytest.mark.parametrize("seconds", [BURST, SHORT])
@pytest.mark.parametrize("length", range(5, 12))
@simulated()
async def test_behind_a_stop_string_nothing_is_told_or_kept(length: int, seconds: float) -> None:
    async with bursting() as sim:
        whole = (await sim.client(ask("free", prompt(8), max_tokens=30))).text()
        stop = whole[length - 2 : length]
    async with bursting(burst_seconds=seconds) as sim:
        story = await sim.client(ask("a", prompt(8), max_tokens=30, stop=StopAutomaton([stop])))
        assert story.text() == whole[: whole.index(stop)]
        assert story.finished().stop_string == stop
        kept = max(len(place.tokens) for place in sim.manager.table.places)
        assert kept == 8 + len(story.tokens()) - 1


@simulated(seeds=8)
async def test_a_stop_string_is_noticed_one_step_late_and_costs_no_neighbour_a_token() -> None:
    """Its row of that step is trimmed; the others have theirs."""
    async with bursting() as sim:
        whole = (await sim.client(ask("free", prompt(8), max_tokens=30))).text()
    async with bursting(burst_seconds=SHORT) as sim:
        old = sim.expect(ask("old", prompt(8), max_tokens=30, stop=StopAutomaton([whole[20:22]])))
        other = sim.expect(ask("other", prompt(8, start=5), max_tokens=40))
        await together(sim, (old, {}), (other, {}))
        assert old.text() == whole[: whole.index(whole[20:22])]
        assert other.tokens() == sim.model.continuation(prompt(8, start=5), 40)
        end = max(step for step, ended in enumerate(sim.steps) if any(run.owner[0] == "old" for run in ended.runs))
        told_at = old.times[len(old.tokens()) - 1]
        assert [sim.steps[end - late].finished_at for late in (1, 0)] == pytest.approx([told_at, told_at + STEP])


@simulated(seeds=4)
async def test_what_a_step_gave_is_told_of_when_the_next_one_has_begun() -> None:
    async with bursting(burst_seconds=SHORT) as sim:
        await sim.client(ask("first", prompt(4, start=30), max_tokens=4))
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=18))
        assert story.tokens() == sim.model.continuation(prompt(8), 18)
        assert (bursts.steps, bursts.goes_on) == ([1] * 17, [*([True] * 16), False])
        gaps = [later - sooner for sooner, later in pairwise(story.times[:18])]
        assert gaps == pytest.approx([STEP] * 17)


@simulated(seeds=4)
async def test_no_burst_is_longer_than_a_quarter_second() -> None:
    async with bursting(burst_seconds=SHORT, step_seconds=lambda rows: 0.05) as sim:
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=23))
        assert story.tokens() == sim.model.continuation(prompt(8), 23)
        goes_on = "".join("+" if follows else " " for follows in bursts.goes_on)
        assert max(map(len, goes_on.split())) == int(MOST_SECONDS / 0.05) - 1


@pytest.mark.parametrize("seconds", [BURST, SHORT])
@simulated(seeds=4)
async def test_a_device_error_within_a_burst_costs_no_neighbour_a_token(seconds: float) -> None:
    chaos = Chaos(FaultPlan((DeviceError(step=11, layer=1),)))
    async with bursting(chaos=chaos, burst_seconds=seconds) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(8, start=n + 3), max_tokens=20)) for n in range(2)]
        await together(sim, *((story, {}) for story in stories))
        assert len(sim.fired) == 1
        for n, story in enumerate(stories):
            assert story.tokens() == sim.model.continuation(prompt(8, start=n + 3), 20)


@simulated(seeds=4)
async def test_numbers_that_are_not_finite_within_a_burst_are_computed_again() -> None:
    chaos = Chaos(FaultPlan((NotFinite(step=11, segment=0),)))
    async with bursting(chaos=chaos) as sim:
        story = await sim.client(ask("a", prompt(8), max_tokens=20))
        assert len(sim.fired) == 1
        assert story.tokens() == sim.model.continuation(prompt(8), 20)


@simulated(seeds=4)
async def test_while_drafts_do_not_pay_there_are_bursts() -> None:
    """Whoever drafts looks for drafts after each token; a drafter that is never right is asked now and then."""
    fast = {"step_seconds": lambda rows: STEP / 10, "burst_seconds": STEP}
    async with bursting(speculate=Proposer.DRAFT, accuracy=0.0, **fast) as sim:
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=100))
        assert story.tokens() == sim.model.continuation(prompt(8), 100)
        assert max(bursts.steps) > 4
        tries = [step.started_at for step in sim.steps if step.drafting]
        assert max(tries) > trio.current_time() / 2, "drafts are tried again"


@simulated(seeds=4)
async def test_whose_drafts_stand_has_no_bursts() -> None:
    async with bursting(speculate=Proposer.DRAFT, accuracy=1.0, draft_tokens=3) as sim:
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=40))
        assert story.tokens() == sim.model.continuation(prompt(8), 40)
        assert all(steps == 1 for steps in bursts.steps)


@simulated(seeds=4)
async def test_rings_bound_how_far_a_burst_goes() -> None:
    async with bursting(rings=windowed(8, 12), layers=2, burst_seconds=20 * STEP) as sim:
        bursts = Bursts()
        with sim.engine.observed_by(bursts):
            story = await sim.client(ask("a", prompt(8), max_tokens=30))
        assert story.tokens() == sim.model.continuation(prompt(8), 30)
        assert max(bursts.steps) == 3


@pytest.mark.parametrize("seconds", [None, BURST])
@simulated(seeds=4)
async def test_a_prompt_that_others_let_pass_waits_for_no_burst_of_theirs(seconds: float | None) -> None:
    """Those who are less important have every fourth step while it is read."""
    async with bursting(burst_seconds=seconds) as sim:
        old = sim.expect(ask("old", prompt(8), max_tokens=60))
        new = sim.expect(ask("new", prompt(80, start=5), max_tokens=2, priority=-1))
        await together(sim, (old, {}), (new, {"arrives": 20.3 * STEP}))
        assert new.times[0] == pytest.approx((21 + 10 + 3) * STEP)


@simulated(seeds=4)
async def test_a_planned_jump_of_the_clock_within_a_burst_happens_behind_it() -> None:
    chaos = Chaos(FaultPlan((ClockJump(step=11, seconds=100.0),)))
    async with bursting(chaos=chaos) as sim:
        story = await sim.client(ask("a", prompt(8), max_tokens=40))
        assert len(sim.fired) == 1
        assert story.times[-1] > 100
