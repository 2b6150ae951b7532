"""Waiting for a request's end."""

from __future__ import annotations

import trio

from actors.core.receipts import CancelReason
from tests.fakes.simulation import ask, open_simulation, prompt, simulated


@simulated(seeds=3)
async def test_who_waits_for_the_end_of_a_cancelled_request_finds_its_receipt() -> None:
    async with open_simulation(slots=1) as sim, trio.open_nursery() as nursery:
        await sim.engine.wait_ended("nobody")
        story = sim.expect(ask("r", prompt(5), max_tokens=50))
        nursery.start_soon(sim.client, story.asked)
        await trio.sleep(0.055)
        assert sim.engine.cancel("r")
        await sim.engine.wait_ended("r")
        (receipt,) = sim.engine.receipts()
        assert (receipt.request_id, receipt.reason) == ("r", CancelReason.OPERATOR)
        assert sim.engine.requests() == []
        figures = sim.engine.statistics().manager
        assert figures.last_step_seconds is not None
        assert figures.step_target_seconds >= sim.engine.config.step_seconds
