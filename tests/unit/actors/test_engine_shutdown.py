"""The engine's own end: drains, and a cancel from outside at every moment."""

from __future__ import annotations

import functools

import pytest
import trio
import trio.testing

from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from actors.engine import Engine
from runtime.errors import ShuttingDown
from tests.fakes.simulation import AtStep, Simulation, Story, ask, open_simulation, prompt, run, simulated
from tests.scenarios.engine.together import STEP, same_time


async def busy(sim: Simulation, nursery: trio.Nursery, count: int = 4, max_tokens: int = 20) -> list[Story]:
    stories = [sim.expect(ask(f"r{n}", prompt(5, start=n + 3), max_tokens=max_tokens)) for n in range(count)]
    for n, story in enumerate(stories):
        nursery.start_soon(functools.partial(sim.client, story.asked, arrives=n / 1000))
    await trio.sleep(0.055)
    return stories


@simulated(seeds=3)
async def test_drain_lets_the_living_finish_and_nobody_in() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        stories = await busy(sim, nursery)
        nursery.start_soon(sim.engine.drain, 100.0)
        await trio.testing.wait_all_tasks_blocked()
        late = await sim.client(ask("late", prompt(5)))
        assert isinstance(late.error, ShuttingDown)
        assert sim.engine.health() == "shutting down"
    assert all(len(story.tokens()) == 20 for story in stories)
    assert trio.current_time() < 1.0, "drain waited longer than it had to"


@simulated(seeds=3)
async def test_drain_cancels_those_who_take_too_long() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        stories = await busy(sim, nursery)
        await sim.engine.drain(0.05)
        await sim.engine.wait_all_ended()
        assert trio.current_time() < 0.055 + 0.05 + 2 * STEP
        await trio.testing.wait_all_tasks_blocked()
        for active in stories[:2]:
            assert active.finished().reason is FinishReason.CANCELLED
            assert active.receipt.phase == "decode"
        for queued in stories[2:]:
            assert isinstance(queued.failed(), ShuttingDown)
            assert queued.receipt.phase == "queued"
        assert {story.receipt.reason for story in stories} == {CancelReason.SHUTDOWN}


@simulated(seeds=2)
async def test_who_waits_for_the_end_of_all_waits_for_those_who_come_meanwhile() -> None:
    async with open_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", prompt(5), max_tokens=5))
        await trio.sleep(0.001)
        second = sim.expect(ask("second", prompt(5, start=4), max_tokens=50))
        nursery.start_soon(functools.partial(sim.client, second.asked, arrives=0.005))
        with trio.fail_after(100):
            await sim.engine.wait_all_ended()
        assert second.ended


@simulated(seeds=2)
async def test_drain_of_an_idle_engine_returns_at_once() -> None:
    async with open_simulation() as sim:
        await sim.engine.drain(100.0)
        assert trio.current_time() == 0.0


def cancelled_from_outside(n: int | None, seed: int) -> int:
    """The whole cancelled before the n-th step of any task, in the middle of everything; how many steps there are."""
    everything = trio.CancelScope()
    open_now: list[Engine] = []
    instrument = AtStep(n, everything.cancel)

    async def scenario() -> None:
        with everything:
            async with open_simulation(slots=1, layers=2) as sim, trio.open_nursery() as nursery:
                open_now.append(sim.engine)
                for i in range(3):
                    nursery.start_soon(sim.client, ask(f"r{i}", prompt(12, start=i + 3), max_tokens=2))

    run(scenario, seed=seed, instruments=[instrument])
    for engine in open_now:
        engine.check_integrity()
        assert all(slot.request_id is None for slot in engine.slots())
        assert engine.requests() == []
    return instrument.steps


@pytest.mark.parametrize("seed", range(2))
def test_an_engine_cancelled_from_outside_at_any_time_ends(seed: int) -> None:
    steps = cancelled_from_outside(None, seed)
    assert steps > 50
    for n in range(steps):
        cancelled_from_outside(n, seed)
