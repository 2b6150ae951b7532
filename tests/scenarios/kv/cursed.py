"""Servers with KV that loads well and cannot be used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.kv.blocks import BLOCK_TOKENS, Block
from tests.fakes.kv_simulation import (
    KVSimulation,
    SettledDisk,
    Truth,
    open_kv_simulation,
    open_settled_disk,
    rewrite,
    text,
)
from tests.fakes.simulation import ask

PROMPT = text(300, 1)
BLOCKS = len(PROMPT) // BLOCK_TOKENS


@asynccontextmanager
async def warm(folder: Path, *tiers: str, slots: int = 2, audit_share: float = 0.0) -> AsyncIterator[KVSimulation]:
    """A server that was just started again, with `PROMPT`'s blocks in `tiers`."""
    truth = Truth()
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=slots, disk=disk, truth=truth) as sim:
            first = await sim.client(ask("long ago", PROMPT, max_tokens=1))
            assert first.finished().cached_tokens == 0
        assert len(disk.tier) == BLOCKS
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=slots, disk=disk, truth=truth, audit_share=audit_share) as sim:
            if "ram" in tiers:
                for key in sim.keys(PROMPT):
                    block = disk.load(key)
                    assert block is not None
                    with sim.as_manager():
                        sim.ram.insert(block)
            if "disk" not in tiers:
                for key in sim.keys(PROMPT):
                    disk.drop([key])
            yield sim


def blocks(sim: KVSimulation, disk: SettledDisk) -> list[Block]:
    """Return the blocks of the prompt that the disk has."""
    found = [disk.load(key) for key in sim.keys(PROMPT)]
    return [block for block in found if block is not None]


def let_the_second_block_lie(sim: KVSimulation, folder: Path) -> None:
    """Make its file one that is in order, and holds what the model would not compute."""
    assert isinstance(sim.cache.tiers.disk, SettledDisk)
    lying = blocks(sim, sim.cache.tiers.disk)[1]
    rewrite(folder, lying, [row ^ 0xF000F000 for row in sim.truth.rows(PROMPT)[64:128]])
    sim.let_blocks_lie()
