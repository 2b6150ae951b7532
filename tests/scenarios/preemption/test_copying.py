"""Copies of those who are preempted: made before anybody writes over it, and who waits for that.

In all of these the arena has no room for what is preempted beside those for whom it was.
"""

from __future__ import annotations

from functools import partial

import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import open_kv_simulation, text, until
from tests.fakes.simulation import ask, simulated
from tests.scenarios.preemption.stories import high, low


@simulated(seeds=2)
async def test_the_last_tokens_of_who_has_gone_are_not_kept() -> None:
    """Its client leaves while its blocks still wait to be copied, and while they are copied."""
    for wait in (0.0, 0.015, 0.025, 0.035, 0.045):
        async with open_kv_simulation(slots=1, piece=1, block_seconds=0.01, context=256, positions=256) as sim:
            async with trio.open_nursery() as clients:
                story = await low(sim, clients, length=150)
                clients.start_soon(sim.client, ask("high", text(40, 2), max_tokens=5))
                await until(lambda: sim.manager.statistics().parked == 1)
                await trio.sleep(wait)
                story.connection.cancel()
                story.left_at = trio.current_time()
            await sim.settle()
            blocks = [block for key in sim.ram if (block := sim.ram.get(key)) is not None]
            assert {len(block.token_ids) for block in blocks} == {BLOCK_TOKENS}


@simulated(seeds=2)
async def test_while_it_is_copied_the_less_important_generate_after_every_third_piece_only() -> None:
    """Five pieces of it: its neighbour has a turn before the important one has asked for rows, and one after three."""
    room = partial(open_kv_simulation, context=448, positions=448)
    async with room(slots=2, piece=1, block_seconds=0.01, chunk_tokens=64) as sim:
        async with trio.open_nursery() as clients:
            neighbour = sim.expect(ask("neighbour", text(20, 3), max_tokens=60, priority=10))
            clients.start_soon(sim.client, neighbour.asked)
            await until(lambda: len(neighbour.events) >= 3)
            await low(sim, clients, length=4 * BLOCK_TOKENS - 1)
            begun = len(sim.steps)
            await high(sim)
        during = [{run.owner[0] for run in step.runs} for step in sim.steps[begun:]]
        first = next(number for number, owners in enumerate(during) if "high" in owners)
        assert sum("low" not in owners for owners in during[:first]) == 2, during[: first + 1]


@simulated(seeds=2)
async def test_it_does_not_go_on_before_what_it_had_was_copied() -> None:
    """The important one hangs up at once, and its slot is free while the other's blocks still wait there."""
    async with open_kv_simulation(slots=1, piece=1, block_seconds=0.01, context=384, positions=384) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=300)
            urgent = sim.expect(ask("high", text(100, 2), max_tokens=5))
            clients.start_soon(sim.client, urgent.asked)
            await until(lambda: sim.manager.statistics().pool.given_up > 0 and sim.cache.waiting.any_of(1))
            urgent.connection.cancel()
            urgent.left_at = trio.current_time()
        assert sim.manager.statistics().resumes == 1
        assert sim.rows(story) == 300, "nothing is computed twice"


@simulated(seeds=3)
async def test_who_is_preempted_again_before_its_first_row_has_its_last_tokens_copied_again() -> None:
    """It gets its own slot back, of whose last tokens, which were restored, nobody may use a part."""
    async with open_kv_simulation(slots=4, context=1024, positions=768, piece=1, block_seconds=0.01) as sim:
        async with trio.open_nursery() as clients:
            stories = [sim.expect(ask(f"low{n}", text(250, n), max_tokens=60, priority=10)) for n in range(2)]
            for story in stories:
                clients.start_soon(sim.client, story.asked)
            await until(lambda: all(len(story.events) >= 10 for story in stories))
            await sim.client(ask("high", text(600, 2), max_tokens=2))
            await until(lambda: sim.manager.statistics().resumes == 2)
            again = sim.expect(ask("again", text(600, 3), max_tokens=2))
            clients.start_soon(sim.client, again.asked)
            await until(lambda: sim.manager.statistics().parks == 4)
            again.connection.cancel()
            again.left_at = trio.current_time()
        assert sim.manager.statistics().resumes == 4
        assert [sim.rows(story) for story in stories] == [250, 250], "nothing is computed twice"
