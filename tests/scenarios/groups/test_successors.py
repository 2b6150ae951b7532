"""Successors: who takes another's place, and who starts after another's end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from actors.control import Control
from actors.core.events import Granted, Released
from actors.core.generation import FinishReason
from actors.core.observer import Observer
from actors.core.receipts import CancelReason
from actors.core.slot_views import GenerationKey
from runtime.errors import EndedByAnotherRequest, QueueFull, RequestError
from tests.fakes.simulation import Simulation, Story, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import together

TEXT = prompt(200, start=5)


class MostHeld(Observer):
    """The most slots that were in use at a time."""

    def __init__(self) -> None:
        self.held: set[GenerationKey] = set()
        self.most = 0

    def granted(self, event: Granted) -> None:
        """One more."""
        self.held.add(event.key)
        self.most = max(self.most, len(self.held))

    def released(self, event: Released) -> None:
        """One fewer."""
        self.held.discard(event.key)


class Grants(Observer):
    """Record of who was granted a slot, in order."""

    def __init__(self) -> None:
        self.granted_to: list[str] = []

    def granted(self, event: Granted) -> None:
        """One more."""
        self.granted_to.append(event.request_id)


def keystroke(sim: Simulation, number: int, typed: int = 30, max_tokens: int = 20) -> Story:
    """The story of a request that takes the place of the one before."""
    asked = ask(f"k{number}", TEXT[: typed + number], max_tokens=max_tokens, control=Control(supersede="line"))
    return sim.expect(asked)


@simulated(seeds=3)
async def test_of_a_series_one_is_answered_and_no_more_than_one_slot_is_in_use() -> None:
    async with open_simulation(slots=4, queue=4) as sim:
        stories, most = [keystroke(sim, n) for n in range(40)], MostHeld()
        with sim.engine.observed_by(most):
            await together(sim, *((story, {"arrives": 0.013 * n}) for n, story in enumerate(stories)))
        assert most.most == 1
        assert stories[-1].finished().reason is FinishReason.LENGTH
        for story in stories[:-1]:
            assert story.receipt.reason is CancelReason.SUPERSEDED
            assert story.receipt.supersede == "line"
            assert story.receipt.wasted_tokens <= 8, "a chunk at most"
        assert stories[-1].finished().cached_tokens > 0, "it goes on with what the others have read"


@simulated(seeds=6)
async def test_who_has_a_slot_only_since_its_successor_came_leaves_it_to_that_one() -> None:
    """Both come in one moment: the one before is granted a slot before its cancel is there."""
    for passes in range(8):  # of the scheduler, before the important one comes
        grants, line = Grants(), Control(supersede="line")
        async with open_simulation(slots=1, queue=4) as sim:
            with sim.engine.observed_by(grants):
                async with trio.open_nursery() as clients:
                    for name in ("one", "other"):
                        clients.start_soon(sim.client, ask(name, TEXT[:40], max_tokens=5, control=line))
                    for _ in range(passes):
                        await trio.lowlevel.checkpoint()
                    clients.start_soon(sim.client, ask("important", TEXT[:40], max_tokens=5, priority=-10))
        assert grants.granted_to.index("important") in (0, 2)


@asynccontextmanager
async def open_slow_simulation() -> AsyncIterator[Simulation]:
    """Yield one whose steps are long for a long prompt; what they cost is known."""
    async with open_simulation(
        slots=1, context=1024, chunk_tokens=None, step_seconds=lambda rows: 0.002 + 0.0005 * rows
    ) as sim:
        await sim.client(ask("before", prompt(300, start=9), max_tokens=2))
        yield sim


async def press_keys(sim: Simulation, keys: int, *, every: float) -> tuple[list[int], Story]:
    """Press so many keys at the end of a long text, one `every` so many seconds.

    Returns how much of it each but the last has found in the cache, and the last one's story.
    """
    text, start = prompt(700, start=5), trio.current_time()
    stories = [
        sim.expect(ask(f"k{n}", text[: 600 + n], max_tokens=2, control=Control(supersede="line"))) for n in range(keys)
    ]
    await together(sim, *((story, {"arrives": start + every * n}) for n, story in enumerate(stories)))
    return [story.receipt.cached_tokens for story in stories[:-1] if story.receipts], stories[-1]


@simulated()
async def test_a_series_on_a_slow_machine_gets_ahead() -> None:
    """A step alone could take three times as long as the time between two keystrokes, and nothing of it would stay."""
    async with open_slow_simulation() as sim:
        reached, last = await press_keys(sim, 12, every=0.12)
        assert reached == sorted(reached)
        assert last.finished().cached_tokens > 500


@simulated()
async def test_a_series_gets_ahead_whose_keystrokes_come_faster_than_steps_end_beside_a_neighbour() -> None:
    """Such a step takes 50 ms: each would be lost."""
    async with open_slow_simulation() as sim:
        reached, last = await press_keys(sim, 20, every=0.045)
        unread = [cached for cached in reached if cached < 600]
        assert len(set(unread)) == len(unread), "each finds more than the one before, until all is read"
        assert last.finished().cached_tokens >= 600


@simulated(seeds=3)
async def test_with_one_slot_and_others_that_wait_the_successor_has_the_slot_that_is_left() -> None:
    async with open_simulation(slots=1, queue=8) as sim:
        first, second = keystroke(sim, 0), keystroke(sim, 1)
        waits = sim.expect(ask("waits", prompt(9), max_tokens=3))
        await together(sim, (first, {}), (waits, {"arrives": 0.01}), (second, {"arrives": 0.06}))
        assert first.receipt.reason is CancelReason.SUPERSEDED
        assert second.times[0] < waits.times[0]
        first_step = next(step for step in sim.steps if any(run.owner == ("k1", 0) for run in step.runs))
        before = max(step.finished_at for step in sim.steps if any(run.owner == ("k0", 0) for run in step.runs))
        assert first_step.started_at == pytest.approx(before), "it runs in the next step"


@simulated()
async def test_the_slot_that_is_left_is_no_other_owners() -> None:
    """Whose turn it would be, by fair shares."""
    async with open_simulation(slots=1, queue=8) as sim:
        control = Control(supersede="line")
        first, second = (sim.expect(ask(name, TEXT[:40], control=control, owner="alice")) for name in ("k0", "k1"))
        waits = sim.expect(ask("waits", prompt(9), max_tokens=3, owner="bob"))
        await together(sim, (first, {}), (waits, {"arrives": 0.01}), (second, {"arrives": 0.02}))
        assert first.receipt.reason is CancelReason.SUPERSEDED
        assert second.times[0] < waits.times[0]


@simulated()
async def test_the_successor_of_one_that_waits_has_its_place() -> None:
    async with open_simulation(slots=1, queue=8) as sim:
        runs = sim.expect(ask("runs", prompt(9), max_tokens=10))
        first, second = keystroke(sim, 0), keystroke(sim, 1)
        behind = sim.expect(ask("behind", prompt(9, start=9), max_tokens=3))
        before = sim.expect(ask("before", prompt(9, start=11), max_tokens=3))
        stories = (runs, before, first, behind, second)
        await together(sim, *((story, {"arrives": 0.003 * n}) for n, story in enumerate(stories)))
        assert first.receipt.phase == "queued"
        assert before.times[0] < second.times[0] < behind.times[0]


@simulated()
async def test_a_full_queue_has_room_for_a_successor() -> None:
    async with open_simulation(slots=1, queue=0) as sim:
        stories = [keystroke(sim, n) for n in range(5)]
        await together(sim, *((story, {"arrives": 0.02 * n}) for n, story in enumerate(stories)))
        assert [story.error for story in stories] == [None] * 5
        assert stories[-1].finished().reason is FinishReason.LENGTH


@simulated()
async def test_a_name_that_supersedes_is_its_owners_alone() -> None:
    async with open_simulation(slots=2) as sim:
        control = Control(supersede="line")
        stories = [sim.expect(ask(name, prompt(9), control=control, owner=name)) for name in ("alice", "bob")]
        await together(sim, *((story, {"arrives": 0.01 * n}) for n, story in enumerate(stories)))
        assert [story.receipts for story in stories] == [[], []]


# --- after ------------------------------------------------------------------------------------------------------------


def following(sim: Simulation, name: str, after: str, **more: Any) -> Story:  # noqa: ANN401
    """The story of a request that starts after another."""
    return sim.expect(ask(name, [*TEXT[:40], 7], max_tokens=3, control=Control(after=after), **more))


@simulated(seeds=3)
async def test_a_request_starts_when_the_one_before_has_ended_and_finds_its_kv() -> None:
    async with open_simulation(slots=3) as sim:
        first = sim.expect(ask("first", TEXT[:40], max_tokens=10))
        second = following(sim, "second", "first")
        await together(sim, (first, {}), (second, {"arrives": 0.01}))
        ended = max(step.finished_at for step in sim.steps if any(run.owner == ("first", 0) for run in step.runs))
        begun = min(step.started_at for step in sim.steps if any(run.owner == ("second", 0) for run in step.runs))
        assert begun == pytest.approx(ended)
        assert second.finished().cached_tokens == 40, "two other slots were free, and empty"


@simulated()
@pytest.mark.parametrize("how", [{"hang_up_after": 2}, {"hang_up_at": 0.02}])
async def test_however_the_one_before_ends(how: dict[str, float]) -> None:
    async with open_simulation(slots=2) as sim:
        first = sim.expect(ask("first", TEXT[:40], max_tokens=100))
        second = following(sim, "second", "first")
        await together(sim, (first, how), (second, {"arrives": 0.01}))
        assert second.finished().reason is FinishReason.LENGTH


@simulated()
async def test_one_that_has_ended_already_is_not_waited_for() -> None:
    async with open_simulation(slots=2) as sim:
        await sim.client(ask("first", TEXT[:40]))
        assert (await sim.client(following(sim, "second", "first").asked)).finished().reason is FinishReason.LENGTH


@simulated()
async def test_one_that_is_not_known_or_anothers_is_refused_by_name() -> None:
    async with open_simulation(slots=2) as sim:
        first = sim.expect(ask("first", TEXT[:40], owner="alice"))
        unknown, foreign = following(sim, "a", "nobody"), following(sim, "b", "first", owner="bob")
        itself = following(sim, "itself", "itself")
        await together(sim, (first, {}), *((story, {"arrives": 0.01}) for story in (unknown, foreign, itself)))
        for story in (unknown, foreign, itself):
            assert isinstance(story.error, RequestError)
            assert (story.error.status, story.error.param) == (400, "cede.after")
            assert repr(story.asked.control.after) in str(story.error)


@simulated()
async def test_who_waits_for_an_end_has_a_place_in_the_queue_and_lets_others_by() -> None:
    async with open_simulation(slots=2, queue=1) as sim:
        first = sim.expect(ask("first", TEXT[:40], max_tokens=20))
        second, third = following(sim, "second", "first"), following(sim, "third", "first")
        passes = sim.expect(ask("passes", prompt(9), max_tokens=3))
        stories = (first, second, third, passes)
        await together(sim, *((story, {"arrives": 0.003 * n}) for n, story in enumerate(stories)))
        assert isinstance(third.error, QueueFull)
        assert passes.times[-1] < second.times[0]


@simulated(seeds=6)
async def test_nobody_waits_for_the_place_of_one_that_was_refused() -> None:
    """The other one came when it was not refused yet, and was to have its place."""
    for passes in range(6):  # of the scheduler, before the other one comes
        async with open_simulation(slots=1, queue=1) as sim:
            async with trio.open_nursery() as clients:
                for n in range(2):
                    clients.start_soon(sim.client, ask(f"full {n}", prompt(30, start=n), max_tokens=8))
                await trio.sleep(0.005)
                refused, other = keystroke(sim, 0), keystroke(sim, 1)
                clients.start_soon(sim.client, refused.asked)
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                clients.start_soon(sim.client, other.asked)
        assert isinstance(refused.error, QueueFull | EndedByAnotherRequest)
        assert isinstance(other.error, QueueFull)


@simulated()
async def test_a_deadline_and_the_queues_patience_hold_for_whoever_waits() -> None:
    async with open_simulation(slots=2, queue_timeout=0.05) as sim:
        first = sim.expect(ask("first", TEXT[:40], max_tokens=60))
        second, third = following(sim, "second", "first"), following(sim, "third", "first", timeout=0.03)
        await together(sim, (first, {}), (second, {"arrives": 0.01}), (third, {"arrives": 0.01}))
        assert second.receipt.reason is CancelReason.QUEUE_TIMEOUT
        assert third.receipt.reason is CancelReason.DEADLINE


@simulated()
async def test_places_that_were_taken_over_keep_nothing_of_those_that_had_them() -> None:
    """A series that never pauses does not grow."""
    async with open_simulation(slots=1, queue=4) as sim:
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(sim.client, keystroke(sim, number).asked)
                await trio.sleep(0.01)
                for ticket in sim.manager.queue:
                    assert len(ticket.succeeds) <= 2
