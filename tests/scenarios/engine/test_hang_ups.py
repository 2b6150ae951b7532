"""Hanging up in each phase of a request, and what a retry finds afterwards."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time, together

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
