"""Agents that share a prompt: one reads it, the others follow, whatever becomes of the one they follow."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from actors.core.life import Event
from actors.core.slots import SlotTable
from actors.kv.restore import MIN_GAIN
from runtime.kv.token_chain import TokenChain
from tests.fakes.holds import record_of
from tests.fakes.kv_simulation import ROOT, KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import Story, ask, simulated
from tests.scenarios.kv.sources import SYSTEM


def computed_in_all(sim: KVSimulation, *stories: Story) -> int:
    return sum(sim.rows(story, index) for story in stories for index in range(len(story.asked.prompts)))


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03])
@simulated(seeds=4)
async def test_a_shared_system_prompt_is_computed_once(delay: float) -> None:
    system = text(500, 1)
    async with open_kv_simulation(slots=3) as sim, trio.open_nursery() as nursery:
        stories = [sim.expect(ask(f"agent {n}", system + text(30, 10 + n), max_tokens=12)) for n in range(3)]
        for n, story in enumerate(stories):
            nursery.start_soon(partial(sim.client, story.asked, arrives=n * delay))
        await until(lambda: all(story.ended for story in stories))
        assert computed_in_all(sim, *stories) < 500 + 3 * 30 + 2 * MIN_GAIN
        assert sim.cache.hits["live"] > 2 * (500 - MIN_GAIN)


@simulated(seeds=4)
async def test_four_answers_to_one_prompt_read_it_once() -> None:
    async with open_kv_simulation(slots=4) as sim:
        story = await sim.client(ask("four", *[text(400, 1)] * 4, max_tokens=6))
        assert computed_in_all(sim, story) < 400 + 3 * (MIN_GAIN + 1)
        assert all(len(story.tokens(index)) == 6 for index in range(4))


@simulated(seeds=2)
async def test_more_answers_than_slots() -> None:
    async with open_kv_simulation(slots=2) as sim:
        story = await sim.client(ask("five", *[text(400, 1)] * 5, max_tokens=6))
        assert computed_in_all(sim, story) < 400 + 4 * (MIN_GAIN + 1)


@pytest.mark.parametrize("moment", [0.001, 0.01, 0.03, 0.06, 0.09, 0.12, 0.2])
@simulated()
async def test_a_follower_goes_on_when_its_leader_is_cancelled(moment: float) -> None:
    system = text(500, 1)
    async with open_kv_simulation(slots=3) as sim, trio.open_nursery() as nursery:
        leader = sim.expect(ask("leader", system + text(30, 10), max_tokens=30))
        followers = [sim.expect(ask(f"f{n}", system + text(40, 11 + n), max_tokens=12)) for n in range(2)]
        nursery.start_soon(partial(sim.client, leader.asked, hang_up_at=moment))
        for story in followers:
            nursery.start_soon(partial(sim.client, story.asked, arrives=0.0005))
        await until(lambda: all(story.ended for story in followers))
        assert all(len(story.tokens()) == 12 for story in followers)
        wasted = sum(receipt.wasted_tokens for receipt in leader.receipts)
        kept = sum(receipt.kept_tokens for receipt in leader.receipts)
        assert kept + wasted <= 560
        # Once, but for the rows that went with the cancel.
        assert kept + computed_in_all(sim, *followers) < 500 + 30 + 30 + 2 * 40 + 2 * MIN_GAIN


@simulated(seeds=6)
async def test_a_chain_of_leaders_that_all_go() -> None:
    """Each follows the one before, and each is cancelled while it leads; the last one still is right, and quick."""
    system = text(600, 1)
    async with open_kv_simulation(slots=5) as sim, trio.open_nursery() as nursery:
        for n in range(4):
            asked = ask(f"leader {n}", system[: 300 + 100 * n] + text(30, 20 + n))
            nursery.start_soon(partial(sim.client, asked, arrives=n * 0.001, hang_up_at=0.02 * (n + 1)))
        last = await sim.client(ask("last", system + text(30, 30), max_tokens=12), arrives=0.005)
        assert len(last.tokens()) == 12
        computed = sum(run.rows for step in sim.steps for run in step.runs if run.computed)
        assert computed - 11 < 600 + 5 * 30 + 5 * MIN_GAIN + 64


@simulated(seeds=4)
async def test_a_leader_that_fails_leaves_its_follower_alone() -> None:
    system = text(300, 1)
    async with open_kv_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        poison = next(token for token in range(390) if token not in system + text(30, 11) + text(30, 12))
        sim.faults.raise_on = {poison}
        leader = sim.expect(ask("leader", [*system, *[poison] * 40]))
        nursery.start_soon(sim.client, leader.asked)
        follower = await sim.client(ask("follower", system + text(30, 12), max_tokens=6), arrives=0.001)
        assert leader.failed().status == 500
        assert len(follower.tokens()) == 6


@pytest.mark.parametrize("why", ["cancelled", "released", "decodes", "has read it", "follower has it", "lost"])
def test_nobody_waits_for_a_leader_that_reads_no_more(why: str) -> None:
    table = SlotTable(2, 1000, root=ROOT)
    slots = [table.grant((name, 0), TokenChain(ROOT, [0])) for name in ("leader", "follower")]
    leader, follower = (record_of(slot.owner[0], SYSTEM, slot, table.owner) for slot in slots if slot and slot.owner)
    follower.follow([leader])
    assert follower.is_led
    match why:
        case "cancelled":
            leader.hold.ticket.note_cancel()
        case "released":  # and the slot is somebody else's by now
            leader.happen(Event.CANCELLED)
        case "decodes":
            leader.happen(Event.DECODES)
        case "has read it":
            table.commit(leader.slot, SYSTEM)
        case "follower has it":
            table.commit(follower.slot, SYSTEM)
        case "lost":
            leader.lose("the device is gone")
    assert not follower.is_led
