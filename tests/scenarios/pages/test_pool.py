"""One pool of KV for all: what a few long sequences do not need, many short ones have."""

from __future__ import annotations

import pytest
import trio

from tests.fakes.kv_simulation import open_kv_simulation, text, until
from tests.fakes.simulation import ask, simulated


@simulated()
async def test_one_long_sequence_runs_beside_seven_short_ones_in_the_room_of_four() -> None:
    """Of 512 tokens each: a slot reserved the whole context before."""
    async with open_kv_simulation(slots=8, context=2048, positions=4 * 512) as sim:
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("long", text(1400, 0), max_tokens=100))
            for number in range(1, 8):
                clients.start_soon(sim.client, ask(f"r{number}", text(30, number), max_tokens=30))
            await until(lambda: sim.manager.statistics().leased == 8)
            assert all(slot.request_id is not None for slot in sim.engine.slots())
        assert len(sim.stories["long"].tokens()) == 100


@simulated()
async def test_who_may_come_to_need_more_than_there_is_waits_and_harms_nobody() -> None:
    async with open_kv_simulation(slots=4, context=512, positions=512) as sim, trio.open_nursery() as clients:
        clients.start_soon(sim.client, ask("first", text(200, 1), max_tokens=100))
        await trio.sleep(0.01)
        clients.start_soon(sim.client, ask("second", text(200, 2), max_tokens=100))
        await trio.sleep(0.01)
        assert [ticket.request_id for ticket in sim.manager.queue] == ["second"]


@simulated()
async def test_residents_make_room_and_what_they_held_is_restored() -> None:
    async with open_kv_simulation(slots=4, context=512, positions=512) as sim:
        await sim.client(ask("a", text(200, 1), max_tokens=1))
        await sim.client(ask("b", text(200, 2), max_tokens=1))
        await sim.client(ask("c", text(300, 3), max_tokens=1))
        assert sim.manager.table.pages.counts.given_up >= 1
        again = await sim.client(ask("d", [*text(200, 1), 1], max_tokens=1))
        assert again.finished().cached_tokens >= 128


@simulated()
async def test_streams_in_little_room_say_what_they_say_alone() -> None:
    """Each story is held to its solo run when the simulation ends; no page is copied, since nobody shares any."""
    async with open_kv_simulation(slots=8, context=768, positions=1280, piece=1) as sim:
        async with trio.open_nursery() as clients:
            for number in range(40):
                length, tokens = (20 + 37 * number) % 300 + 1, 30 + (53 * number) % 150
                clients.start_soon(sim.client, ask(f"r{number}", text(length, number), max_tokens=tokens))
        pool = sim.manager.statistics().pool
        assert (pool.copied_pages, pool.promised, pool.held) == (0, 0, 0)
        assert pool.given_up > 0


@pytest.mark.parametrize("tokens", [1, 5, 8, 10, 12])
@simulated(seeds=1)
async def test_room_is_found_where_all_that_waits_to_be_kept_is_kept_already(tokens: int) -> None:
    """Two residents hold the same blocks: once those of the one are copied, nothing is to be copied of the other."""
    async with open_kv_simulation(slots=4, context=512, positions=640, piece=1, block_seconds=0.03) as sim:
        async with trio.open_nursery() as clients:
            for name, length in (("a", tokens), ("b", 1)):
                clients.start_soon(sim.client, ask(name, text(280, 1), max_tokens=length))
                await trio.sleep(0.001)
            clients.start_soon(sim.client, ask("c", text(400, 2), max_tokens=40))
        assert len(sim.stories["c"].tokens()) == 40
