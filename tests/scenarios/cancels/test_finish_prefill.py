"""A prompt is read to its end after its client has gone, and nothing more: the retry finds it."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from actors.control import Control
from actors.core.receipts import CancelReason
from tests.fakes.simulation import Simulation, Step, ask, open_simulation, prompt
from tests.scenarios.engine.together import STEP, same_time

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


async def test_from_the_hang_up_on_it_is_less_important_than_all_others(autojump_clock: MockClock) -> None:
    """In a slot, where others' prompts are read before it; and in the queue, where it has the last place."""
    async with open_simulation(slots=2, queue=3, chunk_tokens=8, context=256, step_seconds=same_time) as sim:
        first, last = prompt(60, start=4), prompt(60, start=5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave, sim, "reading", 2.5 * STEP, prompt(100))
            nursery.start_soon(partial(sim.client, ask("first", first), arrives=3.5 * STEP))
            await trio.sleep(4.5 * STEP)
            nursery.start_soon(leave, sim, "queued", 5.5 * STEP, prompt(40, start=6))
            nursery.start_soon(partial(sim.client, ask("last", last), arrives=6.5 * STEP))
        read = [step.runs[0].owner[0] for step in sim.steps if step.runs[0].rows == 8]
        assert read[:4] == ["reading"] * 4, "before the other came"
        assert read[4:11] == ["first"] * 7, "and only then"
        ends = {name: max(step.finished_at for step in sim.steps if is_in(step, name)) for name in sim.stories}
        assert ends["last"] < min(ends["reading"], ends["queued"])


async def test_nor_is_it_more_important_once_it_has_a_slot(autojump_clock: MockClock) -> None:
    """One whose client left while it waited is read behind who comes later."""
    async with open_simulation(slots=2, queue=3, chunk_tokens=8, context=256, step_seconds=same_time) as sim:
        async with trio.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(sim.client, ask(name, prompt(8), max_tokens=4))
            await trio.sleep(0.5 * STEP)
            nursery.start_soon(leave, sim, "queued", 1.5 * STEP, prompt(120, start=6))
            nursery.start_soon(partial(sim.client, ask("later", prompt(120, start=7)), arrives=10.5 * STEP))
        assert any(is_in(step, "queued") for step in sim.steps if step.finished_at < 10.5 * STEP)
        ends = {name: max(step.finished_at for step in sim.steps if is_in(step, name)) for name in sim.stories}
        assert ends["later"] < ends["queued"]


def is_in(step: Step, name: str) -> bool:
    """Return whether a request has rows in a step."""
    return any(run.owner[0] == name for run in step.runs)


async def test_who_waits_for_what_it_reads_does_not_wait_for_others(autojump_clock: MockClock) -> None:
    """The retry comes, which shares the prompt; so it is read as if the retry read it."""
    async with open_simulation(slots=3, chunk_tokens=8, context=256, step_seconds=same_time) as sim:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave, sim, "reading", 2.5 * STEP, prompt(160))
            nursery.start_soon(partial(sim.client, ask("retry", prompt(160), priority=-1), arrives=3.5 * STEP))
            nursery.start_soon(partial(sim.client, ask("other", prompt(150, start=7)), arrives=3.2 * STEP))
        retry, other = sim.stories["retry"], sim.stories["other"]
        assert retry.times[0] < other.times[0]
        assert retry.finished().cached_tokens == 159
