"""What is preempted lies in a retained place, and is copied out only where its room is wanted."""

from __future__ import annotations

import trio

from runtime.step.transfer import Copy, Load, Save
from tests.fakes.kv_simulation import open_kv_simulation, text, until
from tests.fakes.simulation import ask, simulated
from tests.scenarios.preemption.stories import low, preempted


@simulated()
async def test_what_one_leaves_that_hangs_up_while_preempted_is_there_for_its_retry() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await preempted(sim, clients)
            (retained,) = sim.manager.statistics().pool.shelves
            assert retained.tokens >= 150 + len(story.events) - 1
            story.connection.cancel()
        before = len(sim.watch.transfers)
        retry = await sim.client(ask("again", text(150, 1), max_tokens=5))
        assert retry.finished().cached_tokens == 149
        assert not any(isinstance(one, Copy | Load) for one in sim.watch.transfers[before:]), "it is not copied"


@simulated()
async def test_nothing_of_a_retained_place_is_copied_out_while_somebody_works() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            await preempted(sim, clients)
            before = len(sim.watch.transfers)
            await until(lambda: sim.manager.statistics().resumes == 1)
            assert not any(isinstance(one, Save) for one in sim.watch.transfers[before:])
            clients.cancel_scope.cancel()


@simulated()
async def test_what_is_in_a_retained_place_gives_way_to_whoever_needs_its_room() -> None:
    async with open_kv_simulation(slots=1, context=512, positions=512) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=250)
            clients.start_soon(sim.client, ask("high", text(300, 2), max_tokens=20))
            await until(lambda: sim.manager.statistics().parked == 1)
            assert sim.manager.statistics().pool.shelves
            await until(lambda: not sim.manager.statistics().pool.shelves)
        assert sim.manager.statistics().pool.given_up > 0
        assert (len(story.tokens()), sim.rows(story)) == (60, 250), "nothing is computed twice"
