"""A warm request reads its prompt while nobody else has work, and what it has read is there for the next one."""

from __future__ import annotations

from typing import Any

import pytest

from actors.control import Control
from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from tests.fakes.simulation import Simulation, Story, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time, together

TEXT = prompt(200, start=5)
WARM = Control(warm=True)


def warm(sim: Simulation, name: str, *prompts: list[int], **more: Any) -> Story:  # noqa: ANN401
    """The story of a warm request."""
    return sim.expect(ask(name, *prompts, max_tokens=0, control=more.pop("control", WARM), **more))


def slots_of(sim: Simulation, name: str) -> set[int]:
    """The slots that a request had rows in."""
    return {run.slot for step in sim.steps for run in step.runs if run.owner[0] == name}


@simulated()
async def test_it_reads_its_prompt_and_the_next_one_finds_it() -> None:
    async with open_simulation() as sim:
        story = await sim.client(warm(sim, "w", TEXT[:100]).asked)
        last = story.finished()
        assert (last.reason, last.warmed_tokens, last.completion_tokens) == (FinishReason.LENGTH, 100, 0)
        assert story.receipts == []
        after = await sim.client(ask("a", TEXT[:120]))
        assert after.finished().cached_tokens == 100
        assert after.finished().warmed_tokens is None
        again = await sim.client(warm(sim, "again", TEXT[:120]).asked)
        assert (again.finished().cached_tokens, again.finished().warmed_tokens) == (119, 120)


@simulated(seeds=4)
async def test_anybody_elses_work_ends_it_within_a_layer_and_has_the_slot_that_it_leaves() -> None:
    """The newcomer goes on with what was read, in its place, though another slot was free at once."""
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        story, other = warm(sim, "w", TEXT), sim.expect(ask("other", TEXT[:60]))
        await together(sim, (story, {}), (other, {"arrives": 4.1 * STEP}))
        receipt, last = story.receipt, story.finished()
        assert (last.reason, last.cancelled) == (FinishReason.CANCELLED, CancelReason.OTHER_WORK)
        assert (receipt.reason, receipt.warm, receipt.layers_after_cancel) == (CancelReason.OTHER_WORK, True, 1)
        assert (receipt.kept_tokens, receipt.wasted_tokens) == (32, 8)
        assert last.warmed_tokens == other.finished().cached_tokens == 32
        assert slots_of(sim, "w") == slots_of(sim, "other"), "what was read lies there, and nothing has to be copied"
        began = next(step.started_at for step in sim.steps if step.runs[0].owner[0] == "other")
        assert began <= 4.1 * STEP + STEP / 3, "a layer is a third of a step"


@simulated(seeds=4)
async def test_while_others_have_work_it_ends_at_once_without_a_slot() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        other, story = sim.expect(ask("other", TEXT[:20], max_tokens=30)), warm(sim, "w", prompt(50))
        await together(sim, (other, {}), (story, {"arrives": 5.5 * STEP}))
        assert story.receipt.reason is CancelReason.OTHER_WORK
        assert (story.receipt.phase, story.receipt.computed_tokens) == ("queued", 0)
        assert story.finished().warmed_tokens == 0
        assert story.times[-1] == pytest.approx(5.5 * STEP)


@simulated(seeds=2)
async def test_it_takes_nobodys_place_in_the_queue_and_needs_none() -> None:
    """A slot and no queue: who comes while it is warmed is served; a warm one that comes then is told so."""
    async with open_simulation(slots=1, queue=0, step_seconds=same_time) as sim:
        story, other, late = warm(sim, "w", TEXT), sim.expect(ask("other", prompt(20))), warm(sim, "late", TEXT)
        await together(sim, (story, {}), (other, {"arrives": 2.5 * STEP}), (late, {"arrives": 4.5 * STEP}))
        assert other.finished().reason is FinishReason.LENGTH
        assert [one.receipt.reason for one in (story, late)] == [CancelReason.OTHER_WORK] * 2


@simulated(seeds=2)
async def test_a_client_hangs_up_whenever_it_likes_and_the_receipt_says_what_is_kept() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        story = await sim.client(warm(sim, "w", TEXT).asked, hang_up_at=6.5 * STEP)
        assert (story.receipt.reason, story.receipt.kept_tokens) == (CancelReason.DISCONNECT, 48)
        after = await sim.client(ask("a", TEXT[:100]))
        assert after.finished().cached_tokens == 48


@simulated(seeds=2)
async def test_several_are_warmed_beside_one_another_and_wait_for_one_another() -> None:
    async with open_simulation(slots=2, queue=4) as sim:
        stories = [warm(sim, f"w{n}", prompt(60, start=n + 3)) for n in range(4)]
        await together(sim, *((story, {}) for story in stories))
        assert [story.finished().warmed_tokens for story in stories] == [60] * 4


@simulated(seeds=2)
async def test_the_newest_of_a_line_is_warmed_and_the_request_that_follows_goes_on_with_it() -> None:
    line = Control(supersede="editor", warm=True)
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        typed = [warm(sim, f"w{n}", TEXT[: 100 + 10 * n], control=line) for n in range(3)]
        asked = sim.expect(ask("asked", TEXT[:150], control=Control(supersede="editor")))
        await together(sim, *((one, {"arrives": 3.1 * STEP * n}) for n, one in enumerate([*typed, asked])))
        assert [one.receipt.reason for one in typed] == [CancelReason.SUPERSEDED] * 3
        assert asked.finished().cached_tokens == 72, "all nine chunks that were not cut"


@simulated(seeds=2)
async def test_an_answer_that_is_read_slowly_is_no_work() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        slow, story = sim.expect(ask("slow", prompt(8), max_tokens=4)), warm(sim, "w", TEXT[:40])
        await together(sim, (slow, {"pause": 1.0}), (story, {"arrives": 20 * STEP}))
        assert story.finished().warmed_tokens == 40
        assert story.times[-1] < slow.times[-1]
