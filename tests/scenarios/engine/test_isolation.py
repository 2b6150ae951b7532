"""Where owners are isolated, KV is reused for the same owner's requests alone, from wherever it would come."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import open_kv_simulation, open_settled_disk, text
from tests.fakes.simulation import ask, simulated

PROMPT = text(3 * BLOCK_TOKENS + 20, 1)


@simulated(seeds=2)
@pytest.mark.parametrize("isolated", [True, False])
async def test_a_slot_serves_its_kv_to_its_owner_alone(isolated: bool) -> None:
    """Not even the few tokens behind the last whole block."""
    async with open_kv_simulation(slots=1, ram=0, isolate_owners=isolated) as sim:
        cached = []
        for number, owner in enumerate(("alice", "alice", "bob", None, None, "alice")):
            story = await sim.client(ask(f"r{number}", PROMPT, owner=owner))
            cached.append(story.finished().cached_tokens)
        whole = len(PROMPT) - 1
        assert cached == ([0, whole, 0, 0, whole, 0] if isolated else [0, *[whole] * 5])


@simulated(seeds=2)
async def test_a_prompt_shorter_than_a_block_is_nobody_elses_either() -> None:
    async with open_kv_simulation(slots=1, ram=0, isolate_owners=True) as sim:
        for number, owner in enumerate(("alice", "bob")):
            story = await sim.client(ask(f"r{number}", PROMPT[:30], owner=owner))
            assert story.finished().cached_tokens == 0


@simulated(seeds=2)
async def test_nobody_is_led_by_another_owner() -> None:
    """Who asks the same at the same time computes it for himself, and a third who may copies it."""
    async with open_kv_simulation(slots=3, ram=0, isolate_owners=True) as sim:
        async with trio.open_nursery() as nursery:
            for name, owner in (("a", "alice"), ("b", "bob"), ("c", "alice")):
                nursery.start_soon(sim.client, ask(name, PROMPT, owner=owner))
        cached = {name: story.finished().cached_tokens for name, story in sim.stories.items()}
        assert cached["b"] == 0
        assert sorted((cached["a"], cached["c"])) > [0, BLOCK_TOKENS]


@simulated(seeds=1)
async def test_memory_and_disk_serve_a_block_to_its_owner_alone(tmp_path: Path) -> None:
    with open_settled_disk(tmp_path, blocks=100) as disk:
        async with open_kv_simulation(slots=1, ram=100, disk=disk, isolate_owners=True) as sim:
            await sim.client(ask("a", PROMPT, owner="alice"))
            await sim.client(ask("other", text(200, 2), owner="carol"))
            bob = await sim.client(ask("b", PROMPT, owner="bob"))
            assert bob.finished().cached_tokens == 0
            again = await sim.client(ask("a2", PROMPT, owner="alice"))
            assert again.finished().cached_tokens >= 3 * BLOCK_TOKENS
            assert sim.cache.hits["ram"] + sim.cache.hits["disk"] > 0
