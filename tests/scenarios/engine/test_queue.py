"""The queue: its order, its bound, its timeout, and those who leave it."""

from __future__ import annotations

import pytest

from actors.core.events import StepEnded
from actors.core.generation import FinishReason
from actors.core.observer import Observer
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, QueueTimeout
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time, together


@simulated(seeds=4)
async def test_first_come_first_served() -> None:
    async with open_simulation(slots=1) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(5, start=n + 3), max_tokens=2)) for n in range(6)]
        await together(sim, *((story, {"arrives": 0.001 * n}) for n, story in enumerate(stories)))
        firsts = [story.times[0] for story in stories]
        assert firsts == sorted(firsts)


@simulated()
async def test_the_queue_is_bounded() -> None:
    async with open_simulation(slots=1, queue=2) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(5, start=n + 3))) for n in range(5)]
        await together(sim, *((story, {"arrives": 0.001 * n}) for n, story in enumerate(stories)))
        refused = [story for story in stories if story.error is not None]
        assert [story.asked.id for story in refused] == ["r3", "r4"]
        for story in refused:
            assert isinstance(story.error, QueueFull)
            assert story.error.status == 429
            assert story.error.retry_after is not None
            assert not story.receipts


@simulated()
async def test_a_queue_of_none_serves_as_many_as_there_are_slots() -> None:
    async with open_simulation(slots=2, queue=0) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(5, start=n + 3))) for n in range(3)]
        await together(sim, *((story, {}) for story in stories))
        assert sorted(type(story.error).__name__ for story in stories) == ["NoneType", "NoneType", "QueueFull"]
        again = await sim.client(ask("again", prompt(5)))
        assert again.finished().reason is FinishReason.LENGTH


@simulated()
async def test_generations_of_one_request_are_all_queued_or_none() -> None:
    async with open_simulation(slots=1, queue=2) as sim:
        stories = [
            sim.expect(ask("first", prompt(5))),
            sim.expect(ask("too many", *[prompt(5, start=7)] * 3)),
            sim.expect(ask("just fits", *[prompt(5, start=8)] * 2)),
        ]
        await together(sim, *((story, {"arrives": 0.001 * n}) for n, story in enumerate(stories)))
        assert isinstance(stories[1].error, QueueFull)
        assert str(stories[1].error) == "no room for 3 more: 0 can begin at once, 0 of at most 2 wait"
        assert [stories[2].finished(i).completion_tokens for i in range(2)] == [4, 4]


@simulated(seeds=4)
async def test_queue_timeout() -> None:
    async with open_simulation(slots=1, queue_timeout=0.05, step_seconds=same_time) as sim:
        active, late = sim.expect(ask("active", prompt(5), max_tokens=30)), sim.expect(ask("late", prompt(5, start=7)))
        await together(sim, (active, {}), (late, {"arrives": 0.02}))
        error = late.failed()
        assert isinstance(error, QueueTimeout)
        assert error.status == 503
        assert late.times == [pytest.approx(0.07)]
        assert late.receipt.reason is CancelReason.QUEUE_TIMEOUT
        assert late.receipt.phase == "queued"
        assert len(active.tokens()) == 30


@simulated(seeds=6)
async def test_hundreds_that_leave_the_queue_touch_nobody() -> None:
    """Seed 2: one active decode, and 200 queued requests that are cancelled around it."""
    async with open_simulation(slots=1, queue=200, step_seconds=same_time) as sim:
        active = sim.expect(ask("active", prompt(6), max_tokens=60))
        queued = [sim.expect(ask(f"q{n}", prompt(4, start=n + 3))) for n in range(200)]
        await together(
            sim,
            (active, {}),
            *(
                (story, {"arrives": 0.005, "hang_up_at": 0.006 + (n * 37 % 200) * 0.0025})
                for n, story in enumerate(queued)
            ),
        )
        assert active.tokens() == sim.model.continuation(prompt(6), 60)
        assert active.times[-1] == pytest.approx(60 * STEP), "the active decode was slowed down"
        assert {story.receipt.phase for story in queued} == {"queued"}
        assert {run.owner[0] for step in sim.steps for run in step.runs} == {"active"}


@simulated(seeds=12)
async def test_one_that_is_cancelled_as_the_slot_comes_free_is_not_granted_it() -> None:
    """A grant gives up what is resident and does not continue: nobody dead may cost the next retry that."""
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        active = sim.expect(ask("active", prompt(6), max_tokens=5))
        queued = [sim.expect(ask(f"q{n}", prompt(4, start=n + 3))) for n in range(1, 6)]

        class AllLeaveWithTheLastToken(Observer):
            def step_ended(self, event: StepEnded) -> None:
                if event.number == 5:
                    for story in queued:
                        story.connection.cancel()

        with sim.engine.observed_by(AllLeaveWithTheLastToken()):
            await together(sim, (active, {}), *((story, {"arrives": STEP / 2}) for story in queued))
        assert {story.receipt.phase for story in queued} == {"queued"}
