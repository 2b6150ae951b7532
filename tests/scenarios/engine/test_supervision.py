"""A device that is lost: whoever held a slot is told to come again, no KV from before is used, and nothing hangs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import trio

from actors.core.receipts import CancelReason
from actors.manager.recovery import MAX_RECOVERIES, WINDOW_SECONDS
from actors.testing.chaos import UnreliableExecutor
from runtime.errors import DeviceHangs, DeviceLost
from runtime.loading.served import Proposer
from runtime.step.executor import Executor
from runtime.step.job import StepJob
from runtime.step.step import Segment, StepResult
from runtime.testing.faults import Chaos, FaultPlan, ThreadDeath
from tests.fakes.kv_simulation import open_kv_simulation, text
from tests.fakes.simulation import Simulation, Story, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time


def deaths(*steps: int) -> Chaos:
    return Chaos(FaultPlan(tuple(ThreadDeath(step=step) for step in steps)))


def expect(sim: Simulation, count: int, *, max_tokens: int = 30) -> list[Story]:
    return [sim.expect(ask(f"r{n}", prompt(6, start=n + 3), max_tokens=max_tokens)) for n in range(count)]


async def together(sim: Simulation, stories: Iterable[Story], **behaviour: Any) -> None:  # noqa: ANN401  `client`'s
    async with trio.open_nursery() as nursery:
        for story in stories:
            nursery.start_soon(functools.partial(sim.client, story.asked, **behaviour))


def check_told(story: Story) -> None:
    """Check that its client was told to try again, and that its receipt says that nothing is kept."""
    error = story.failed()
    assert isinstance(error, DeviceLost)
    assert (error.status, error.code) == (503, "device_lost")
    assert error.retry_after is not None
    assert "again" in str(error)
    assert (story.receipt.reason, story.receipt.kept_tokens) == (CancelReason.FAULT, 0)


# --- a thread that ends -----------------------------------------------------------------------------------------------


@simulated(seeds=8)
async def test_those_who_hold_slots_are_told_and_those_who_wait_are_served() -> None:
    async with open_simulation(slots=2, step_seconds=same_time, chaos=deaths(10)) as sim:
        stories = expect(sim, 5)
        await together(sim, stories)
        told = [story for story in stories if story.receipts]
        assert len(told) == 2
        for story in told:
            check_told(story)
        assert all(len(story.tokens()) == 30 for story in stories if story not in told)  # and exact: `check` compares
        assert sim.engine.health() is None
        assert sim.engine.statistics().manager.device_losses == 1


@simulated(seeds=4)
@pytest.mark.parametrize("step", range(1, 12))
async def test_whatever_the_step(step: int) -> None:
    """While a prompt is read, at the first token, and while others come and go."""
    async with open_simulation(slots=2, step_seconds=same_time, chaos=deaths(step)) as sim:
        stories = expect(sim, 4, max_tokens=5)
        async with trio.open_nursery() as nursery:
            for n, story in enumerate(stories):
                nursery.start_soon(functools.partial(sim.client, story.asked, arrives=n * STEP))
            hasty = ask("hasty", prompt(20, start=30), max_tokens=9)
            nursery.start_soon(functools.partial(sim.client, hasty, hang_up_at=step * STEP))
        again = await sim.client(ask("again", stories[0].asked.prompts[0], max_tokens=5))
        assert len(again.tokens()) == 5


@simulated(seeds=4)
@pytest.mark.parametrize("speculate", [Proposer.DRAFT, Proposer.MTP])
@pytest.mark.parametrize("drafting", [True, False])
async def test_between_drafts(speculate: Proposer, drafting: bool) -> None:
    """The drafter's KV is given up as well."""
    chaos = Chaos(FaultPlan((ThreadDeath(step=6, drafting=drafting),)))
    async with open_simulation(slots=2, speculate=speculate, draft_tokens=3, chaos=chaos) as sim:
        stories = expect(sim, 2)
        await together(sim, stories)
        for story in stories:
            check_told(story)
        retries = [ask(f"{story.asked.id}.1", story.asked.prompts[0], max_tokens=30) for story in stories]
        await together(sim, [sim.expect(retry) for retry in retries])
        for retry in retries:
            assert sim.stories[retry.id].finished().cached_tokens == 0


@simulated(seeds=4)
async def test_no_kv_of_before_is_used_but_what_is_outside_the_slots() -> None:
    async with open_kv_simulation(slots=2, chaos=deaths(12)) as sim:
        kept, lost = text(200, 1), text(200, 2)
        await sim.client(ask("kept", kept, max_tokens=2))
        await sim.settle()
        assert sim.reach(kept) == 3
        story = await sim.client(ask("lost", lost, max_tokens=30))
        check_told(story)
        assert not any(slot.resident_tokens for slot in sim.engine.slots())
        assert (await sim.client(ask("lost.1", lost))).finished().cached_tokens == 0
        assert (await sim.client(ask("kept.1", kept))).finished().cached_tokens == 3 * 64


@simulated(seeds=4)
async def test_who_was_elsewhere_meanwhile_does_not_go_on_as_if_nothing_had_been() -> None:
    """Its slot is empty now; the blocks it has fetched would be loaded behind tokens that are no longer there."""
    async with open_kv_simulation(slots=2, ram=1000, chaos=deaths(14)) as sim:
        shared = text(200, 1)
        await sim.client(ask("first", shared, max_tokens=2))
        await sim.settle()
        sim.evict()
        fetch, fetching, is_back = sim.cache.fetch, trio.Event(), trio.Event()

        async def slow_fetch(keys: Any, whole: Any = ()) -> Any:  # noqa: ANN401  as `fetch`
            blocks = await fetch(keys, whole)
            fetching.set()
            await is_back.wait()
            return blocks

        sim.cache.fetch = slow_fetch  # type: ignore[method-assign]
        slow = sim.expect(ask("slow", shared, max_tokens=3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, slow.asked)
            await fetching.wait()
            check_told(await sim.client(ask("other", text(30, 2), max_tokens=30)))
            assert sim.engine.health() is None
            is_back.set()
        check_told(slow)
        assert (await sim.client(ask("slow.1", shared, max_tokens=3))).finished().cached_tokens == 3 * 64


class SlowToRecover(UnreliableExecutor):
    """A device whose new thread takes a second to come, or never does."""

    def __init__(self, executor: Executor, *, comes: bool) -> None:
        super().__init__(executor)
        self._comes = comes

    async def recover(self) -> None:
        """Return after a second, or raise."""
        await trio.sleep(1.0)
        if not self._comes:
            raise DeviceLost("there can be no new device thread")
        await super().recover()


@simulated(seeds=4)
@pytest.mark.parametrize("comes", [True, False])
async def test_who_is_queued_waits_for_the_new_thread_whether_it_comes_or_not(comes: bool) -> None:
    async with open_simulation(slots=2, step_seconds=same_time, chaos=deaths(10)) as sim:
        sim.watch.device.inner = SlowToRecover(sim.watch.device.inner, comes=comes)
        stories = expect(sim, 5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(together, sim, stories)
            await trio.sleep(0.5)
            assert [story.ended for story in stories].count(True) == 2, "they hold nothing any more, and are gone"
            stories.append(sim.expect(ask("newcomer", prompt(4), max_tokens=30)))
            nursery.start_soon(sim.client, stories[-1].asked)
            await trio.testing.wait_all_tasks_blocked()
            assert [status.states for status in sim.engine.requests()] == [("queued",)] * 4
            assert sim.engine.health() is not None
        assert [len(story.tokens()) for story in stories].count(30) == (4 if comes else 0)
        assert (sim.engine.health() is None) == comes


@simulated(seeds=2)
async def test_what_dies_again_and_again_is_left_alone() -> None:
    last = MAX_RECOVERIES + 1
    async with open_simulation(slots=1, step_seconds=same_time, chaos=deaths(*range(1, last + 1))) as sim:
        stories = expect(sim, last + 2)
        await together(sim, stories)
        assert all(isinstance(story.failed(), DeviceLost) for story in stories)
        assert [story.receipt.phase for story in stories].count("queued") == 2
        reason = sim.engine.health()
        assert reason is not None
        assert f"for the {last}th time" in reason
        await trio.sleep(2 * WINDOW_SECONDS)
        late = await sim.client(ask("late", prompt(4)))
        assert isinstance(late.error, DeviceLost)
        assert reason in str(late.error)


@simulated(seeds=2)
async def test_what_dies_now_and_then_is_brought_back_each_time() -> None:
    count = 2 * MAX_RECOVERIES + 1
    async with open_simulation(slots=1, step_seconds=same_time, chaos=deaths(*range(1, count + 1))) as sim:
        for story in expect(sim, count):
            check_told(await sim.client(story.asked))
            await trio.sleep(WINDOW_SECONDS / MAX_RECOVERIES)
        assert len((await sim.client(ask("last", prompt(4), max_tokens=5))).tokens()) == 5
        assert sim.engine.statistics().manager.device_losses == count


# --- one that hangs ---------------------------------------------------------------------------------------------------


class Hanging(UnreliableExecutor):
    """A device whose step hangs once it is armed: given up after a second, it writes its KV when it comes back."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.armed = False
        self.came_back = trio.Event()
        self._late: Sequence[Segment] = ()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run a step, or hang."""
        if not self.armed:
            return await super().run_step(job)
        self.armed = False
        self._late = job.segments
        await trio.sleep(1.0)
        raise DeviceHangs("no layer has ended")

    async def recover(self) -> None:
        """Come back, and end the step that hung."""
        await self.came_back.wait()
        if not self._late:
            return
        for segment in self._late:
            segment.mark.at = None  # the worst case: it passes no boundary at which it would see the cancels
        await super().run_step(StepJob(self._late))


async def hang(sim: Simulation, stories: Sequence[Story]) -> Hanging:
    """Let the device hang when each of these has had its chance of a token, and return once that is known."""
    hanging = sim.watch.device.inner = Hanging(sim.watch.device.inner)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together, sim, stories)
        await trio.sleep(5 * STEP)
        hanging.armed = True
    return hanging


@simulated(seeds=4)
async def test_a_device_that_hangs_is_told_to_everybody_and_is_waited_for() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        stories = expect(sim, 4)
        hanging = await hang(sim, stories)
        for story in stories:  # those in the queue as well: it may never come back
            check_told(story)
        assert sim.engine.health() == "no layer has ended"
        assert isinstance((await sim.client(ask("early", prompt(4)))).error, DeviceLost)
        hanging.came_back.set()
        await trio.sleep(1.0)
        assert sim.engine.health() is None
        retry = await sim.client(ask("retry", stories[0].asked.prompts[0], max_tokens=30))
        assert (len(retry.tokens()), retry.finished().cached_tokens) == (30, 0)


@simulated(seeds=2)
async def test_a_device_that_never_comes_back_does_not_hold_up_the_end() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        await hang(sim, expect(sim, 4))
        await sim.engine.drain(grace=10.0)
    assert sim.engine.health() is not None


@simulated(seeds=2)
async def test_a_device_that_refuses_all_work_is_never_asked_again() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        hanging = sim.watch.device.inner = Hanging(sim.watch.device.inner)
        hanging.came_back.set()
        sim.faults.lost = "CUDA error: device-side assert triggered"
        stories = expect(sim, 3)
        await together(sim, stories)
        for story in stories:
            check_told(story)
        sim.faults.lost = None
        assert isinstance((await sim.client(ask("late", prompt(4)))).error, DeviceLost)
