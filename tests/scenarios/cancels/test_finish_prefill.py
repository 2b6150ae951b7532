"""A prompt is read to its end after its client has gone, and nothing more: the retry finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from actors.control import Control
from actors.core.receipts import CancelReason
from tests.fakes.simulation import Simulation, ask, open_simulation, prompt

if TYPE_CHECKING:
    from trio.testing import MockClock

FINISH = Control("finish_prefill")


async def leave(sim: Simulation, name: str, at: float, *prompts: list[int], max_tokens: int = 20) -> None:
    """Ask, and want the prompts alone from some moment on."""
    asked = ask(name, *prompts, max_tokens=max_tokens, control=FINISH)
    story = sim.expect(asked)
    async with sim.engine.open_request(asked) as request:
        story.opened = True
        await trio.sleep_until(at)
        request.finish_prefill()
        story.events = [event async for event in request]
    story.ended = True
    story.receipts = [receipt for receipt in sim.engine.receipts() if receipt.request_id == name]


async def test_the_prompt_is_read_and_nothing_generated(autojump_clock: MockClock) -> None:
    async with open_simulation(slots=2, chunk_tokens=8, context=256) as sim:
        await leave(sim, "a", 0.0, prompt(100))
        story = sim.stories["a"]
        assert story.receipt.reason is CancelReason.PREFILL_FINISHED
        assert (story.receipt.kept_tokens, story.receipt.wasted_tokens, story.receipt.phase) == (100, 0, "prefill")
        assert story.tokens() == []
        retry = await sim.client(ask("b", prompt(100)))
        assert retry.finished().cached_tokens == 99


async def test_one_that_generates_already_ends_at_once(autojump_clock: MockClock) -> None:
    async with open_simulation(slots=2, context=256) as sim:
        await leave(sim, "a", 1.0, prompt(5), max_tokens=200)
        story = sim.stories["a"]
        assert story.receipt.reason is CancelReason.DISCONNECT
        assert 0 < len(story.tokens()) < 200


@pytest.mark.parametrize("generations", [2, 5])
async def test_each_generation_leaves_its_slot_to_the_next(autojump_clock: MockClock, generations: int) -> None:
    async with open_simulation(slots=1, chunk_tokens=8, context=256) as sim:
        await leave(sim, "a", 0.0, *(prompt(30, start=3 + index) for index in range(generations)))
        receipts = sim.stories["a"].receipts
        assert [receipt.reason for receipt in receipts] == [CancelReason.PREFILL_FINISHED] * generations
        assert [receipt.kept_tokens for receipt in receipts] == [30] * generations


async def test_another_cancel_ends_the_reading(autojump_clock: MockClock) -> None:
    async with open_simulation(slots=1, chunk_tokens=1, context=256) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(leave, sim, "a", 0.0, prompt(200))
        await trio.sleep(0.01)
        sim.delete("a")
        await sim.engine.wait_ended("a")
        assert [receipt.reason for receipt in sim.engine.receipts()] == [CancelReason.OPERATOR]
