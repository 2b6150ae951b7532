"""Who listens is told of blocks as they come and go; the rest of what holds is I26's (`tests.sim.kv.published`)."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from tests.fakes.kv_simulation import fresh, open_kv_simulation, open_settled_disk, text, until
from tests.fakes.simulation import ask, simulated


@simulated()
async def test_the_blocks_of_an_aborted_prompt_are_known_at_once() -> None:
    prompt = text(1000, 1)
    async with open_kv_simulation(slots=1) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", prompt, max_tokens=5))
        await until(lambda: len(sim.watch.published.told) >= 3)
        nursery.cancel_scope.cancel()
        await sim.engine.wait_all_ended()
        told = sim.watch.published.told
        assert told == set(sim.keys(prompt)[: len(told)])
        assert 3 <= len(told) < 15


@simulated()
async def test_what_the_disk_loses_by_itself_is_taken_back_while_nothing_runs(tmp_path: Path) -> None:
    with open_settled_disk(fresh(tmp_path)) as disk:
        async with open_kv_simulation(slots=1, disk=disk) as sim:
            prompt = text(200, 1)
            await sim.client(ask("first", prompt))
            await sim.settle()
            sim.evict(ram=True)
            assert sim.watch.published.told == set(sim.keys(prompt))
            sim.evict(disk=True)
            await trio.testing.wait_all_tasks_blocked()
            assert not sim.watch.published.told


@simulated()
async def test_nothing_is_told_of_a_request_that_wants_no_reuse() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("private", text(200, 1), cache_prompt=False))
        await sim.settle()
        assert not sim.watch.published.told
        await sim.client(ask("public", text(200, 1)))
        assert len(sim.watch.published.told) == 3


@simulated()
async def test_the_disk_remembers_who_wanted_no_reuse(tmp_path: Path) -> None:
    """What it reads is told of when another request has it in its slot, and not by being in memory."""
    with open_settled_disk(fresh(tmp_path)) as disk:
        async with open_kv_simulation(slots=1, disk=disk) as sim:
            prompt = text(200, 1)
            await sim.client(ask("private", prompt, cache_prompt=False))
            await sim.settle()
            sim.evict(ram=True)
            fetched = await sim.cache.fetch(sim.keys(prompt))
            with sim.as_manager():
                assert [block.private for block in sim.cache.take(fetched)] == [True] * 3
            assert not sim.watch.published.told
            await sim.client(ask("public", prompt))
            assert len(sim.watch.published.told) == 3
