"""Faults of the device: a step that fails costs the culprit alone, a lost device is told to everybody."""

from __future__ import annotations

import pytest
import trio

from actors.core.receipts import CancelReason
from runtime.errors import DeviceLost, StepFailed
from tests.fakes.simulation import CULPRIT, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time, together


@pytest.mark.parametrize("kind", ["raises", "not finite"])
@simulated(seeds=4)
async def test_a_step_that_fails_costs_only_the_culprit(kind: str) -> None:
    async with open_simulation(slots=3) as sim:
        (sim.faults.raise_on if kind == "raises" else sim.faults.not_finite_on).add(CULPRIT)
        good = [sim.expect(ask(f"good{n}", prompt(6, start=n + 3), max_tokens=12)) for n in range(2)]
        bad = sim.expect(ask("bad", [*prompt(12, start=9), CULPRIT, 4], max_tokens=12))
        await together(sim, *((story, {}) for story in good), (bad, {"arrives": 0.02}))
        assert isinstance(bad.failed(), StepFailed)
        assert bad.receipt.reason is CancelReason.FAULT
        assert bad.receipt.kept_tokens == 0, "what met a failure is not to be found by a retry"
        for story in good:
            assert story.tokens() == sim.model.continuation(story.asked.prompts[0], 12)
            assert not story.receipts
        assert sim.engine.health() is None
        assert sim.engine.statistics().manager.failed_steps == (2 if kind == "raises" else 0)


@simulated(seeds=4)
async def test_the_slot_of_a_failed_request_serves_the_next() -> None:
    async with open_simulation(slots=1) as sim:
        sim.faults.raise_on.add(CULPRIT)
        await sim.client(ask("bad", [*prompt(12), CULPRIT, 4]))
        sim.faults.raise_on.clear()
        retry = await sim.client(ask("retry", [*prompt(12), CULPRIT, 4], max_tokens=6))
        assert retry.finished().cached_tokens == 0
        assert len(retry.tokens()) == 6


@simulated(seeds=4)
async def test_two_culprits_in_one_step_both_fail_alone() -> None:
    async with open_simulation(slots=3, chunk_tokens=64) as sim:
        sim.faults.raise_on.add(CULPRIT)
        good = sim.expect(ask("good", prompt(6), max_tokens=12))
        bad = [sim.expect(ask(f"bad{n}", [*prompt(4, start=n + 5), CULPRIT])) for n in range(2)]
        await together(sim, (good, {}), *((story, {}) for story in bad))
        assert all(isinstance(story.failed(), StepFailed) for story in bad)
        assert len(good.tokens()) == 12


@simulated(seeds=6)
async def test_a_suspect_that_hangs_up_is_not_run_again() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        sim.faults.raise_on.add(CULPRIT)
        good, bad = (
            sim.expect(ask("good", prompt(6), max_tokens=12)),
            sim.expect(ask("bad", [*prompt(12, start=9), CULPRIT])),
        )
        await together(sim, (good, {}), (bad, {"hang_up_at": 2.5 * STEP}))
        assert len(good.tokens()) == 12


@simulated(seeds=4)
async def test_a_lost_device_is_told_to_everybody() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(6, start=n + 3), max_tokens=50)) for n in range(5)]

        async def pull_the_plug() -> None:
            await trio.sleep(0.1)
            sim.faults.lost = "the device fell off the bus"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull_the_plug)
            nursery.start_soon(together, sim, *[(story, {}) for story in stories])
        assert all(isinstance(story.failed(), DeviceLost) for story in stories)
        assert {story.receipt.reason for story in stories} == {CancelReason.FAULT}
        assert sim.engine.health() == "the device fell off the bus"
        refused = await sim.client(ask("late", prompt(4)))
        assert isinstance(refused.error, DeviceLost)
        assert refused.error.status == 503
