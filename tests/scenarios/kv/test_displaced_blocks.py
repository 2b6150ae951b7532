"""What is displaced from a slot is saved first, whoever leaves meanwhile."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from runtime.step.transfer import Save
from tests.fakes.kv_simulation import open_kv_simulation, text
from tests.fakes.simulation import ask, simulated


@simulated()
async def test_what_is_displaced_is_saved_first() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.client(ask("second", text(100, 2)))  # at once: nothing was saved in between
        assert sim.reach(sim.whole(first)) == 6
        back = await sim.client(ask("back", text(400, 1)))
        assert back.finished().cached_tokens == 384


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.005, 0.007, 0.0121, 0.0181, 0.02])
@simulated()
async def test_what_is_displaced_survives_the_cancel_of_who_displaced_it(moment: float) -> None:
    async with open_kv_simulation(slots=1) as sim:
        tokens = text(400, 1)
        await sim.client(ask("first", tokens, max_tokens=2))
        now = trio.current_time()
        await sim.client(ask("second", tokens[:150] + text(100, 2)), hang_up_at=now + moment)
        now = trio.current_time()
        await sim.client(ask("third", tokens[:80] + text(100, 3)), hang_up_at=now + moment)
        await sim.client(ask("stranger", text(70, 4)))
        back = await sim.client(ask("back", tokens, max_tokens=2))
        assert back.finished().cached_tokens == 384


@simulated()
async def test_what_the_tiers_let_go_meanwhile_is_saved_when_it_is_displaced() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.settle()
        sim.evict(slots=False, ram=True)
        await sim.client(ask("second", text(400, 1)[:200] + text(50, 2)))
        await sim.settle()
        assert sim.reach(sim.whole(first)) == 6


@simulated()
async def test_a_save_that_fails_costs_that_block_only() -> None:
    async with open_kv_simulation(slots=1) as sim:
        sim.faults.fails = lambda transfer: isinstance(transfer, Save) and transfer.start == 192
        await sim.client(ask("first", text(400, 1)))
        await sim.client(ask("second", text(100, 2)))
        back = await sim.client(ask("back", text(400, 1)))
        assert back.finished().cached_tokens == 192
