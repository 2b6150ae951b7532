"""A bug in one actor costs its generation only; one in the slot manager ends the engine, and everybody is told."""

from __future__ import annotations

import functools

import pytest
import trio
import trio.testing

from actors.core.generation import FinishReason
from actors.core.life import State
from actors.core.receipts import CancelReason
from runtime.errors import CedeError
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import same_time

# --- bugs -------------------------------------------------------------------------------------------------------------


@simulated(seeds=4)
async def test_a_bug_in_an_actor_costs_its_generation_only() -> None:
    async with open_simulation(slots=3, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        sim.faults.text_raises_on.add(sim.model.continuation(prompt(5), 3)[2])
        story = sim.expect(ask("a", prompt(5), prompt(5, start=6), max_tokens=10))
        other = sim.expect(ask("b", prompt(5, start=7), max_tokens=10))
        nursery.start_soon(sim.client, other.asked)
        await sim.client(story.asked)
        assert type(story.failed(0)) is CedeError
        assert "planted" not in str(story.failed(0)), "the client is not told of our insides"
        assert story.finished(1).completion_tokens == 10
        assert [(receipt.index, receipt.reason) for receipt in story.receipts] == [(0, CancelReason.FAULT)]
    assert len(other.tokens()) == 10


@simulated(seeds=3)
async def test_a_bug_at_the_end_of_the_text() -> None:
    async with open_simulation(slots=1) as sim:
        sim.faults.flush_raises = True
        story = await sim.client(ask("a", prompt(5)))
        assert type(story.failed()) is CedeError
        sim.faults.flush_raises = False
        assert (await sim.client(ask("b", prompt(5)))).finished().reason is FinishReason.LENGTH


@simulated(seeds=3)
async def test_a_bug_while_a_cancel_is_told() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        sim.faults.flush_raises = True
        story = sim.expect(ask("a", prompt(5), prompt(5, start=5), max_tokens=50))
        nursery.start_soon(sim.client, story.asked)
        await trio.sleep(0.055)
        sim.engine.cancel("a")
        await sim.engine.wait_all_ended()
        await trio.testing.wait_all_tasks_blocked()
        assert type(story.failed(0)) is CedeError
        assert {receipt.reason for receipt in story.receipts} == {CancelReason.OPERATOR}


@simulated(seeds=2)
async def test_a_request_that_cannot_be_built_leaves_no_trace() -> None:
    """Whatever raises while it is being built, the slot must not be lost for that."""
    async with open_simulation(slots=1) as sim:
        sim.faults.text_cannot_be_made = True
        with pytest.raises(ZeroDivisionError, match="planted"):
            async with sim.engine.open_request(ask("a", prompt(5))):
                raise AssertionError("admitted")
        sim.faults.text_cannot_be_made = False
        assert (await sim.client(ask("b", prompt(5)))).finished().reason is FinishReason.LENGTH


@simulated(seeds=3)
async def test_a_bug_in_the_slot_manager_ends_the_engine_and_everybody_with_it() -> None:
    """No clean end is possible then, but nobody may be left waiting."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a planted bug")

    async def scenario() -> None:
        async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(sim.client, ask(f"r{n}", prompt(5, start=n + 3), max_tokens=50))
            await trio.sleep(0.055)
            sim.manager.table.commit = broken  # type: ignore[method-assign, assignment]
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await scenario()
    assert caught.group_contains(ZeroDivisionError)


# --- looking in -------------------------------------------------------------------------------------------------------


@simulated(seeds=2)
async def test_live_requests_can_be_looked_at() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        for n in range(2):
            asked = ask(f"r{n}", prompt(20, start=n + 3))
            nursery.start_soon(functools.partial(sim.client, asked, arrives=n / 1000))
        await trio.sleep(0.015)
        first, second = sim.engine.requests()
        assert (first.id, first.states, first.slots) == ("r0", (State.PREFILL,), (0,))
        assert (second.id, second.states, second.slots) == ("r1", (State.QUEUED,), (None,))
        assert (first.prompt_tokens, first.completion_tokens) == (20, 0)
        await trio.sleep(0.03)
        assert sim.engine.requests()[0].states == (State.DECODE,)
        assert sim.engine.requests()[0].completion_tokens == 2
        assert sim.engine.statistics().live_requests == 2
        assert sim.engine.statistics().manager.queued == 1
        assert [slot.request_id for slot in sim.engine.slots()] == ["r0"]
        await sim.engine.wait_all_ended()
        assert sim.engine.statistics().manager.cancels[CancelReason.DISCONNECT] == 0
