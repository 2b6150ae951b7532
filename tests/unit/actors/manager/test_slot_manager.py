"""The slot manager through whole requests: batching, chunks, the queue, hang-ups, faults of the device."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import pytest
import trio

from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import DeviceLost, QueueFull, QueueTimeout, StepFailed
from runtime.loading.served import Proposer
from tests.fakes.simulation import CULPRIT, Simulation, Story, ask, open_simulation, prompt, simulated

STEP = 0.01  # seconds, where every step takes the same


def same_time(_rows: int) -> float:
    return STEP


async def together(sim: Simulation, *clients: tuple[Story, dict[str, Any]]) -> None:
    async with trio.open_nursery() as nursery:
        for story, behaviour in clients:
            nursery.start_soon(functools.partial(sim.client, story.asked, **behaviour))


# --- batches ----------------------------------------------------------------------------------------------------------


@simulated(seeds=4)
async def test_all_decodes_share_each_step() -> None:
    async with open_simulation(slots=4) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=10)) for n in range(4)]
        await together(sim, *((story, {}) for story in stories))
        assert [len(story.tokens()) for story in stories] == [10] * 4
        # One chunk for each prompt (8 rows a step) and nine decode steps, shared by all from the third on.
        full = [step for step in sim.steps if len(step.runs) == 4]
        assert len(full) >= 8
        assert len(sim.steps) <= 13


@simulated(seeds=8)
async def test_a_batch_stays_full_from_step_to_step() -> None:
    async with open_simulation(slots=3, chunk_tokens=64) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=20)) for n in range(3)]
        await together(sim, *((story, {}) for story in stories))
        assert len(sim.steps) == 20
        assert {len(step.runs) for step in sim.steps} == {3}


@simulated()
async def test_a_request_alone_takes_as_many_steps_as_it_must() -> None:
    async with open_simulation() as sim:
        story = await sim.client(ask("a", prompt(20), max_tokens=5))
        assert [step.rows for step in sim.steps] == [8, 8, 4, 1, 1, 1, 1]
        assert story.finished().completion_tokens == 5
        statistics = sim.engine.statistics().manager
        assert (statistics.steps, statistics.rows) == (7, 24)
        assert (statistics.prefill_tokens, statistics.decode_tokens) == (20, 4)


@simulated(seeds=4)
async def test_prompts_share_the_budget_and_a_short_one_is_not_kept_waiting() -> None:
    async with open_simulation(slots=2) as sim:
        long, short = sim.expect(ask("long", prompt(200))), sim.expect(ask("short", prompt(12, start=5)))
        await together(sim, (long, {}), (short, {"arrives": 0.05}))
        assert short.times[0] < long.times[0] / 2
        assert all(step.rows <= 8 + 1 for step in sim.steps)


@simulated()
async def test_nobody_starves_even_where_there_are_more_prompts_than_rows() -> None:
    """The oldest gets half of the rows, however many shorter ones come after it."""
    async with open_simulation(slots=4, chunk_tokens=2) as sim:
        oldest = sim.expect(ask("oldest", prompt(20)))
        shorter = [sim.expect(ask(f"r{n}", prompt(6, start=n + 3))) for n in range(12)]
        await together(sim, (oldest, {}), *((story, {"arrives": 0.001}) for story in shorter))
        assert all(story.finished().reason is FinishReason.LENGTH for story in (oldest, *shorter))
        before = sum(story.times[0] < oldest.times[0] for story in shorter)
        assert 0 < before < 6, "half of some 40 rows are the oldest's: six of six do not fit into the rest"


@simulated(seeds=2)
async def test_a_long_prompt_does_not_hold_up_its_decoding_neighbours() -> None:
    async with open_simulation(
        slots=3, context=1100, chunk_tokens=None, step_seconds=lambda rows: 0.004 + 0.0005 * rows
    ) as sim:
        decoding = [sim.expect(ask(f"r{n}", prompt(4, start=n + 3), max_tokens=60)) for n in range(2)]
        long = sim.expect(ask("long", prompt(1000, start=9), max_tokens=2))
        await together(sim, *((story, {}) for story in decoding), (long, {"arrives": 0.1}))
        assert long.finished().prompt_tokens == 1000
        for story in decoding:
            gaps = [b - a for a, b in pairwise(story.times)]
            assert max(gaps) <= 0.06, "an inter-token gap beyond the target step time"
        beside = [step for step in sim.steps if len(step.runs) == 3 and step.rows > 3]
        assert len(beside) > 8
        assert sum(step.rows for step in beside[3:8]) > 5 * 50, "the chunks are smaller than the target allows"


@simulated(seeds=2)
async def test_a_drafter_that_catches_up_does_not_hold_up_its_decoding_neighbours() -> None:
    async with open_simulation(
        slots=2,
        context=1300,
        chunk_tokens=None,
        step_seconds=lambda rows: 0.004 + 0.0015 * rows,
        speculate=Proposer.DRAFT,
        draft_tokens=3,
    ) as sim:
        plain = sim.expect(ask("plain", prompt(4), max_tokens=1200, speculate=False))
        drafts = sim.expect(ask("drafts", prompt(1000, start=9), max_tokens=20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, plain.asked)
            await sim.client(drafts.asked, arrives=0.1)
            nursery.cancel_scope.cancel()
        assert drafts.finished().timings.draft_n_accepted > 5
        gaps = [b - a for a, b in pairwise(plain.times)]
        assert max(gaps) <= 0.06, "an inter-token gap beyond the target step time"


# --- the queue --------------------------------------------------------------------------------------------------------


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
        assert str(stories[1].error) == "no room for 3 more: 0 slots are free, 0 of at most 2 wait"
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

        def all_leave_with_the_last_token() -> None:
            if len(sim.steps) == 4:
                for story in queued:
                    story.connection.cancel()

        sim.watch.after_step = all_leave_with_the_last_token
        await together(sim, (active, {}), *((story, {"arrives": STEP / 2}) for story in queued))
        assert {story.receipt.phase for story in queued} == {"queued"}


# --- hang-ups ---------------------------------------------------------------------------------------------------------


@simulated(seeds=4)
async def test_hang_up_in_the_middle_of_a_chunk() -> None:
    async with open_simulation(slots=1, step_seconds=same_time, layers=5) as sim:
        story = await sim.client(ask("a", prompt(40)), hang_up_at=2 * STEP + 0.0049)
        receipt = story.receipt
        assert (receipt.reason, receipt.phase) == (CancelReason.DISCONNECT, "prefill")
        assert (receipt.computed_tokens, receipt.kept_tokens, receipt.wasted_tokens) == (24, 16, 8)
        assert receipt.layers_after_cancel == 1
        assert receipt.last_kernel_at is not None
        assert receipt.slot_freed_at is not None
        assert receipt.slot_freed_at - receipt.detected_at < STEP / 5
        assert len(sim.steps) == 3


@simulated(seeds=4)
async def test_hang_up_in_the_middle_of_a_step_that_others_share() -> None:
    async with open_simulation(slots=2, step_seconds=same_time, layers=5) as sim:
        victim, other = sim.expect(ask("a", prompt(40))), sim.expect(ask("b", prompt(4, start=5), max_tokens=20))
        await together(sim, (victim, {"hang_up_at": 2 * STEP + 0.0049}), (other, {}))
        assert victim.receipt.layers_after_cancel == 1
        assert victim.receipt.wasted_tokens > 0
        assert other.tokens() == sim.model.continuation(other.asked.prompts[0], 20)


@simulated(seeds=4)
async def test_hang_up_in_the_last_layer_keeps_what_is_computed() -> None:
    async with open_simulation(slots=1, step_seconds=same_time, layers=5) as sim:
        story = await sim.client(ask("a", prompt(40)), hang_up_at=3 * STEP - 0.0001)
        assert (story.receipt.computed_tokens, story.receipt.kept_tokens) == (24, 24)
        assert story.receipt.layers_after_cancel == 1


@simulated(seeds=4)
async def test_hang_up_in_the_queue() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        active, queued = sim.expect(ask("a", prompt(4), max_tokens=10)), sim.expect(ask("b", prompt(4, start=5)))
        await together(sim, (active, {}), (queued, {"arrives": 0.011, "hang_up_at": 0.035}))
        assert (queued.receipt.phase, queued.receipt.computed_tokens) == ("queued", 0)
        assert queued.receipt.slot_freed_at is None
        assert active.times[-1] == pytest.approx(10 * STEP)


@pytest.mark.parametrize("tokens", [1, 2, 5, 9])
@simulated(seeds=3)
async def test_hang_up_while_decoding(tokens: int) -> None:
    async with open_simulation(slots=1) as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=10), hang_up_after=tokens)
        assert story.receipt.phase in ("prefill", "decode")
        assert 10 + tokens - 1 <= story.receipt.kept_tokens <= 10 + tokens
        assert len(sim.steps) <= 2 + tokens


@simulated(seeds=3)
async def test_hang_up_after_the_last_token_leaves_no_receipt() -> None:
    async with open_simulation(slots=1) as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=5), hang_up_after=6)
        assert story.finished().reason is FinishReason.LENGTH
        assert not story.receipts


@simulated(seeds=3)
async def test_hang_up_before_anything_has_run() -> None:
    async with open_simulation(slots=1) as sim:
        story = await sim.client(ask("a", prompt(10)), hang_up_after=0)
        assert story.receipt.computed_tokens == 0
        assert sim.steps == []


@simulated(seeds=3)
async def test_the_slot_of_one_that_left_goes_to_the_next_at_once() -> None:
    async with open_simulation(slots=1, step_seconds=same_time, layers=5) as sim:
        victim, waiting = sim.expect(ask("a", prompt(200))), sim.expect(ask("b", prompt(4, start=5)))
        await together(sim, (victim, {"hang_up_at": 0.035}), (waiting, {"arrives": 0.001}))
        assert waiting.times[0] <= 0.035 + STEP / 5 + STEP + 1e-9


# --- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hang_up_at", [0.0149, 0.02, 0.025, 0.0333, 0.06])
@simulated(seeds=2)
async def test_a_retry_finds_what_was_computed(hang_up_at: float) -> None:
    async with open_simulation(slots=2, step_seconds=same_time, layers=5) as sim:
        first = await sim.client(ask("first", prompt(64)), hang_up_at=hang_up_at)
        again = await sim.client(ask("again", prompt(64)))
        assert first.receipt.kept_tokens > 0
        assert again.finished().cached_tokens == first.receipt.kept_tokens
        assert again.finished().timings.cache_n == first.receipt.kept_tokens


@simulated(seeds=2)
async def test_a_retry_whose_prompt_grew_finds_it_too() -> None:
    """Seed 1: the retry has one tool result more."""
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        await sim.client(ask("first", prompt(64)), hang_up_at=0.055)
        again = await sim.client(ask("again", [*prompt(50), 1, 2, 3]))
        assert again.finished().cached_tokens == 40


@simulated(seeds=3)
async def test_a_client_with_a_short_timeout_gets_there_in_the_end() -> None:
    """C3: each attempt has time for little more than one chunk, and each gets at least one further."""
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        attempts = []
        for attempt in range(20):
            now = trio.current_time()
            story = await sim.client(ask(f"try {attempt}", prompt(80), max_tokens=1), hang_up_at=now + 1.5 * STEP)
            attempts.append(story)
            if not story.hung_up:
                break
        assert story.finished().reason is FinishReason.LENGTH
        assert len(attempts) <= 10 + 1
        for before, after in pairwise(story.receipt for story in attempts if story.hung_up):
            assert after.cached_tokens == before.cached_tokens + before.kept_tokens
            assert after.kept_tokens >= 8


@simulated()
async def test_cache_prompt_off_computes_everything() -> None:
    async with open_simulation(slots=1) as sim:
        await sim.client(ask("first", prompt(20)))
        again = await sim.client(ask("again", prompt(20), cache_prompt=False))
        assert again.finished().cached_tokens == 0
        assert again.finished().timings.prompt_n == 20


@simulated()
async def test_a_conversation_goes_on_where_it_was() -> None:
    async with open_simulation(slots=2) as sim:
        turn = await sim.client(ask("one", prompt(20), max_tokens=6))
        following = await sim.client(ask("two", [*prompt(20), *turn.tokens(), 5, 6, 7]))
        assert following.finished().cached_tokens == 25, "all but the last token, whose KV nobody needed"


# --- faults of the device ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["raises", "not finite"])
@simulated(seeds=4)
async def test_a_step_that_fails_costs_only_the_culprit(kind: str) -> None:
    async with open_simulation(slots=3) as sim:
        (sim.faults.raise_on if kind == "raises" else sim.faults.not_finite_on).add(CULPRIT)
        good = [sim.expect(ask(f"good{n}", prompt(6, start=n + 3), max_tokens=12)) for n in range(2)]
        bad = sim.expect(ask("bad", [*prompt(12, start=9), CULPRIT, 4], max_tokens=12))
        await together(sim, *((story, {}) for story in good), (bad, {"arrives": 0.02}))
        assert isinstance(bad.failed(), StepFailed)
        assert bad.receipt.reason is CancelReason.FAULT
        assert bad.receipt.kept_tokens == 0, "what met a failure is not to be found by a retry"
        for story in good:
            assert story.tokens() == sim.model.continuation(story.asked.prompts[0], 12)
            assert not story.receipts
        assert sim.engine.health() is None
        assert sim.engine.statistics().manager.failed_steps == (2 if kind == "raises" else 0)


@simulated(seeds=4)
async def test_the_slot_of_a_failed_request_serves_the_next() -> None:
    async with open_simulation(slots=1) as sim:
        sim.faults.raise_on.add(CULPRIT)
        await sim.client(ask("bad", [*prompt(12), CULPRIT, 4]))
        sim.faults.raise_on.clear()
        retry = await sim.client(ask("retry", [*prompt(12), CULPRIT, 4], max_tokens=6))
        assert retry.finished().cached_tokens == 0
        assert len(retry.tokens()) == 6


@simulated(seeds=4)
async def test_two_culprits_in_one_step_both_fail_alone() -> None:
    async with open_simulation(slots=3, chunk_tokens=64) as sim:
        sim.faults.raise_on.add(CULPRIT)
        good = sim.expect(ask("good", prompt(6), max_tokens=12))
        bad = [sim.expect(ask(f"bad{n}", [*prompt(4, start=n + 5), CULPRIT])) for n in range(2)]
        await together(sim, (good, {}), *((story, {}) for story in bad))
        assert all(isinstance(story.failed(), StepFailed) for story in bad)
        assert len(good.tokens()) == 12


@simulated(seeds=6)
async def test_a_suspect_that_hangs_up_is_not_run_again() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        sim.faults.raise_on.add(CULPRIT)
        good, bad = (
            sim.expect(ask("good", prompt(6), max_tokens=12)),
            sim.expect(ask("bad", [*prompt(12, start=9), CULPRIT])),
        )
        await together(sim, (good, {}), (bad, {"hang_up_at": 2.5 * STEP}))
        assert len(good.tokens()) == 12


@simulated(seeds=4)
async def test_a_lost_device_is_told_to_everybody() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        stories = [sim.expect(ask(f"r{n}", prompt(6, start=n + 3), max_tokens=50)) for n in range(5)]

        async def pull_the_plug() -> None:
            await trio.sleep(0.1)
            sim.faults.lost = "the device fell off the bus"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull_the_plug)
            nursery.start_soon(together, sim, *[(story, {}) for story in stories])
        assert all(isinstance(story.failed(), DeviceLost) for story in stories)
        assert {story.receipt.reason for story in stories} == {CancelReason.FAULT}
        assert sim.engine.health() == "the device fell off the bus"
        refused = await sim.client(ask("late", prompt(4)))
        assert isinstance(refused.error, DeviceLost)
        assert refused.error.status == 503
