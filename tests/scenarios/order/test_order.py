"""Order: priorities, fair shares among owners, and deadlines that cannot be met."""

from __future__ import annotations

import pytest
import trio

from actors.core.life import State
from actors.core.receipts import CancelReason
from runtime.errors import DeadlineExceeded
from runtime.testing.faults import Chaos, DeviceError, FaultPlan
from tests.fakes.kv_simulation import open_kv_simulation, text, until
from tests.fakes.simulation import Simulation, Story, ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time, together


def begun(stories: list[Story]) -> list[str]:
    """Return who got a first token, in that order."""
    return [story.asked.id for story in sorted(stories, key=lambda story: story.times[0])]


@simulated(seeds=4)
async def test_the_lower_priority_goes_first_and_the_rest_as_they_came() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        numbers = [0, 10, -10, 0, -10]
        stories = [
            sim.expect(ask(f"r{n}", prompt(5, start=n + 3), max_tokens=2, priority=number))
            for n, number in enumerate(numbers)
        ]
        await together(sim, *((story, {"arrives": 0.001 * n}) for n, story in enumerate(stories)))
        assert begun(stories) == ["r0", "r2", "r4", "r3", "r1"]


@simulated(seeds=2)
async def test_nobody_starves_beside_those_who_are_more_important() -> None:
    """A newcomer of a better class in each step, and one who waits: it is served when ten levels have passed."""
    async with open_simulation(slots=1, queue=300, step_seconds=same_time, ageing_seconds=0.05) as sim:
        patient = sim.expect(ask("patient", prompt(5), max_tokens=2, priority=10))
        others = [sim.expect(ask(f"r{n}", prompt(5, start=n + 4), max_tokens=2)) for n in range(100)]
        await together(
            sim, (patient, {"arrives": 0.005}), *((one, {"arrives": 0.01 * n}) for n, one in enumerate(others))
        )
        assert patient.times[0] <= 10 * 0.05 + 10 * STEP
        assert begun([patient, *others]).index("patient") > 10


@simulated(seeds=2)
async def test_two_owners_get_shares_close_to_their_weights() -> None:
    """Alice's requests are four times as large as Bob's, and half of what they seem; her weight is twice his."""
    async with open_simulation(slots=2, queue=400, step_seconds=same_time) as sim:
        alice = [
            sim.expect(ask(f"a{n}", prompt(60, start=n + 3), max_tokens=200, owner="alice", weight=2.0))
            for n in range(60)
        ]
        bob = [sim.expect(ask(f"b{n}", prompt(12, start=n + 90), max_tokens=8, owner="bob")) for n in range(240)]
        end = {"hang_up_at": 6.0}  # while both want more
        await together(
            sim, *((story, end | {"hang_up_after": 20}) for story in alice), *((story, end) for story in bob)
        )
        used = {name: computed(sim, name) for name in "ab"}
        assert used["a"] / used["b"] == pytest.approx(2, rel=0.15), used


def computed(sim: Simulation, name: str) -> int:
    """Return the rows that were computed for those whose ids begin with a letter."""
    return sum(run.rows for step in sim.steps for run in step.runs if run.owner[0].startswith(name))


@simulated()
async def test_a_prompt_of_a_better_priority_is_read_first() -> None:
    async with open_simulation(slots=2, chunk_tokens=8, step_seconds=same_time) as sim:
        long = sim.expect(ask("long", prompt(80), priority=0))
        urgent = sim.expect(ask("urgent", prompt(40, start=9), priority=-1))
        await together(sim, (long, {}), (urgent, {"arrives": 2.5 * STEP}))
        assert urgent.times[0] == pytest.approx((3 + 5) * STEP), "five chunks, and nobody else's between them"


@simulated(seeds=2)
@pytest.mark.parametrize(("priority", "turns"), [(1, [3, 7, 11]), (0, list(range(12))), (-1, list(range(12)))])
async def test_the_less_important_generate_in_every_fourth_step_while_a_better_prompt_is_read(
    priority: int, turns: list[int]
) -> None:
    """And these are steps of their own."""
    async with open_simulation(slots=2, chunk_tokens=8, step_seconds=same_time) as sim:
        story = sim.expect(ask("story", prompt(5), max_tokens=60, priority=priority))
        better = sim.expect(ask("better", prompt(96, start=9), max_tokens=2))
        await together(sim, (story, {}), (better, {"arrives": 4.5 * STEP}))
        owners = [{run.owner[0] for run in step.runs} for step in sim.steps if not step.drafting]
        first = next(number for number, one in enumerate(owners) if "better" in one)
        during = owners[first : first + 12]
        assert [turn for turn, one in enumerate(during) if "story" in one] == turns
        assert [turn for turn, one in enumerate(during) if "better" not in one] == (turns if priority > 0 else [])
        assert story.finished().completion_tokens == 60


@simulated(seeds=2)
async def test_the_last_rows_of_the_less_important_go_along_with_a_better_prompt() -> None:
    async with open_simulation(slots=2, chunk_tokens=8, step_seconds=same_time) as sim:
        few = sim.expect(ask("few", prompt(2), max_tokens=2, priority=1))
        better = sim.expect(ask("better", prompt(96, start=9), max_tokens=2))
        await together(sim, (better, {}), (few, {"arrives": 2.5 * STEP}))
        assert few.times[0] == pytest.approx(4 * STEP), "it is in the step after its coming"


@simulated(seeds=2)
async def test_they_have_their_turn_although_steps_raise_again_and_again() -> None:
    """Whoever was in such a step runs alone, twice in three steps here, and that counts for nothing."""
    chaos = Chaos(FaultPlan((DeviceError(step=8, every=3),)))
    async with open_simulation(slots=3, chunk_tokens=8, step_seconds=same_time, chaos=chaos) as sim:
        behind, peer = (
            sim.expect(ask(name, prompt(5, start=n), max_tokens=60, priority=n)) for n, name in ((1, "a"), (0, "b"))
        )
        better = sim.expect(ask("better", prompt(96, start=9), max_tokens=2))
        await together(sim, (behind, {}), (peer, {}), (better, {"arrives": 4.5 * STEP}))
        reads = [n for n, step in enumerate(sim.steps) if any(run.owner == ("better", 0) for run in step.runs)]
        during = sim.steps[reads[0] : reads[-1]]
        assert any(run.owner == ("a", 0) for step in during for run in step.runs)


@simulated(seeds=2)
async def test_a_deadline_that_cannot_be_met_is_refused_at_the_door() -> None:
    """Once steps are known: 400 rows at 1 ms each do not end in 50 ms, twice as fast neither; in 500 ms perhaps."""
    async with open_simulation(slots=1, step_seconds=lambda rows: 0.001 * rows, context=512) as sim:
        await sim.client(ask("first", prompt(100)))
        late = await sim.client(ask("late", prompt(400, start=8), timeout=0.05))
        assert isinstance(late.error, DeadlineExceeded)
        assert "cannot be met" in str(late.error)
        assert not late.receipts
        tight = await sim.client(ask("tight", prompt(400, start=9), timeout=0.5))
        assert tight.finished().completion_tokens == 4
        again = await sim.client(ask("again", prompt(400, start=9), timeout=0.05))
        assert again.error is None, "all of it may be cached"


@simulated(seeds=2)
async def test_a_deadline_that_waiting_made_impossible_is_cut_before_it_gets_a_slot() -> None:
    async with open_simulation(slots=1, step_seconds=lambda rows: 0.001 * rows, context=512) as sim:
        await sim.client(ask("first", prompt(100)))
        busy = sim.expect(ask("busy", prompt(20, start=7), max_tokens=300))
        late = sim.expect(ask("late", prompt(400, start=8), timeout=0.35))
        await together(sim, (busy, {}), (late, {"arrives": trio.current_time() + 0.01}))
        error = late.failed()
        assert isinstance(error, DeadlineExceeded)
        assert (late.receipt.reason, late.receipt.phase) == (CancelReason.DEADLINE, "queued")
        assert late.times[0] < 0.35 + busy.times[0], "before the deadline itself"


@simulated(seeds=3)
async def test_nobody_is_preempted_for_one_who_is_in_time_only_by_reading_along() -> None:
    async with open_kv_simulation(slots=1, step_seconds=lambda rows: 0.001 * rows) as sim:
        await sim.client(ask("first", text(100, 1)))
        async with trio.open_nursery() as clients:
            story = sim.expect(ask("low", text(300, 2), max_tokens=20, priority=10))
            clients.start_soon(sim.client, story.asked)
            await until(lambda: any(status.states == (State.PREFILL,) for status in sim.engine.requests()))
            late = await sim.client(ask("late", [*text(300, 2), 1], timeout=0.1))
        assert "cannot be met" in str(late.failed())
        assert sim.manager.statistics().parks == 0
        assert len(story.tokens()) == 20


@simulated(seeds=3)
async def test_who_waits_behind_one_that_can_no_longer_be_in_time_has_its_slot_before_the_next_step() -> None:
    """That one lacks room; the other does not, so I8 wants it granted in the very turn in which the first leaves."""
    async with open_kv_simulation(
        slots=3, positions=512, context=512, chunk_tokens=400, step_seconds=lambda rows: 0.001 * rows
    ) as sim:
        await sim.client(ask("first", text(100, 1)))
        async with trio.open_nursery() as clients:
            busy = sim.expect(ask("busy", text(350, 2), max_tokens=20, priority=10))
            clients.start_soon(sim.client, busy.asked)
            await until(lambda: any(status.states == (State.PREFILL,) for status in sim.engine.requests()))
            late = sim.expect(ask("late", text(300, 3), timeout=0.32))
            await trio.sleep(0.05)  # of a step of 0.35 s
            clients.start_soon(sim.client, late.asked)
            await until(lambda: len(sim.manager.queue) == 1)
            small = sim.expect(ask("small", text(20, 4), max_tokens=5))
            clients.start_soon(sim.client, small.asked)
        assert "cannot be met" in str(late.failed())
        assert len(small.tokens()) == 5
        assert sim.manager.statistics().parks == 0
