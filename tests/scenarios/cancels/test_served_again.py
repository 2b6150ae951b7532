"""What a retry is served of a cancelled request is what the receipt said was kept, wherever it comes from."""

from __future__ import annotations

import pytest
import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text
from tests.fakes.simulation import Story, ask, simulated

PROMPT = text(400, 3)


def served(sim: KVSimulation) -> int:
    """The figure of the metric."""
    return sim.cache.statistics().served_again


async def hang_up(sim: KVSimulation, name: str, at: float = 0.05) -> Story:
    """Ask for the prompt, and leave in its middle."""
    story = await sim.client(ask(name, PROMPT, max_tokens=4), hang_up_at=trio.current_time() + at)
    assert 0 < story.receipt.kept_tokens < len(PROMPT)
    return story


@simulated()
async def test_from_the_slot_it_is_every_token_that_was_kept() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await hang_up(sim, "a")
        assert served(sim) == 0
        again = await sim.client(ask("b", PROMPT, max_tokens=4))
        assert served(sim) == first.receipt.kept_tokens == again.finished().cached_tokens
        await sim.client(ask("c", PROMPT, max_tokens=4))
        assert served(sim) == first.receipt.kept_tokens, "each counts once"


@simulated()
async def test_a_client_that_hangs_up_again_and_again_is_served_all_that_it_left() -> None:
    async with open_kv_simulation(slots=1) as sim:
        kept = [(await hang_up(sim, name, at)).receipt.kept_tokens for name, at in (("a", 0.05), ("b", 0.02))]
        assert served(sim) == kept[0]
        await sim.client(ask("c", PROMPT, max_tokens=4))
        assert served(sim) == sum(kept)


@simulated()
async def test_from_memory_or_disk_it_is_whole_blocks() -> None:
    async with open_kv_simulation(slots=1, ram=100) as sim:
        first = await hang_up(sim, "a")
        await sim.settle()
        sim.evict()
        await sim.client(ask("b", PROMPT, max_tokens=4))
        assert sim.cache.hits["ram"] == served(sim) == first.receipt.kept_tokens // BLOCK_TOKENS * BLOCK_TOKENS


@simulated()
async def test_from_a_slot_that_another_left_it_is_what_is_shared() -> None:
    async with open_kv_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        first = await hang_up(sim, "a")
        nursery.start_soon(sim.client, ask("b", [*PROMPT[:200], 1, 2, 3], max_tokens=40))
        await trio.sleep(0.1)
        assert served(sim) == (kept := min(first.receipt.kept_tokens, 200))
        again = await sim.client(ask("c", PROMPT, max_tokens=4))
        assert again.finished().cached_tokens >= kept
        assert served(sim) == first.receipt.kept_tokens, (
            "each counts once; what was not shared is in the slot that was left"
        )


@simulated()
async def test_what_nobody_was_cancelled_over_is_a_plain_hit() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("a", PROMPT, max_tokens=4))
        await sim.client(ask("b", PROMPT, max_tokens=4))
        assert sim.cache.hits["resident"] > 0
        assert served(sim) == 0


@simulated()
async def test_what_had_to_be_computed_again_is_not_served_by_whoever_computed_it() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await hang_up(sim, "a")
        sim.evict()
        for name in ("b", "c"):
            await sim.client(ask(name, PROMPT, max_tokens=4))
        assert sim.cache.hits["resident"] > 0
        assert served(sim) == 0


@pytest.mark.parametrize("after", [2, 5])
def test_of_what_was_generated_a_retry_of_the_prompt_is_served_none(after: int) -> None:
    @simulated()
    async def scenario() -> None:
        async with open_kv_simulation(slots=1) as sim:
            first = await sim.client(ask("a", PROMPT, max_tokens=40), hang_up_after=after)
            assert first.receipt.kept_tokens > len(PROMPT)
            await sim.client(ask("b", PROMPT, max_tokens=4))
            assert served(sim) == len(PROMPT) - 1, "the last one's logits are wanted"
            whole = [*PROMPT, *first.tokens()]
            await sim.client(ask("c", whole, max_tokens=1))
            assert served(sim) == len(PROMPT) - 1, "what followed was in the slot, which is trimmed"

    scenario()
