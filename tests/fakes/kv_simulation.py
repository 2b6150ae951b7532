"""The simulation with KV outside the slots: tiers, a device whose transfers can fail, and a watch on what it moves.

Everything is `tests.fakes.simulation`'s, and virtual time too: what the cache reads in a worker thread is read here in
a task, and costs virtual seconds.  Blocks handed to the disk tier are on disk when `put_nowait` returns.  So nothing
depends on how fast a thread is.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import torch
import trio

from actors.config import EngineConfig
from actors.engine import Engine, open_engine
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from runtime.kv.blocks import Block, BlockKey, block_keys
from runtime.kv.disk.tier import DiskTier
from runtime.kv.ram_tier import RamTier
from runtime.kv.rings import Rings
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, ShortWrite
from runtime.testing.simulated import STATE_BYTES
from tests.fakes.ownership import LendableOwner
from tests.fakes.simulation import VOCABULARY, Simulation, Story, open_drafter, serve_stand_in
from tests.sim.endings import check_exact, check_prompt_outputs
from tests.sim.grammars import StandInGrammars
from tests.sim.history import ROOT, SHAPE, Truth
from tests.sim.kv.device import DTYPE, Faults, KVModel, pack, pack_layers, unpack
from tests.sim.kv.lies import Lies
from tests.sim.kv.tiers import (
    BLOCK_BYTES,
    FILE_BYTES,
    SettledDisk,
    block_file,
    open_settled_disk,
    reads_in_virtual_time,
    rewrite,
)
from tests.sim.kv.watch import KVWatch, Moved

__all__ = [
    "BLOCK_BYTES",
    "DTYPE",
    "FILE_BYTES",
    "ROOT",
    "SHAPE",
    "Faults",
    "KVModel",
    "KVSimulation",
    "KVWatch",
    "Moved",
    "SettledDisk",
    "Truth",
    "block_file",
    "fresh",
    "open_kv_simulation",
    "open_settled_disk",
    "pack",
    "reads_in_virtual_time",
    "rewrite",
    "text",
    "unpack",
    "until",
]


def fresh(folder: Path) -> Path:
    """A folder in there that no run of the test has had yet."""
    return folder / str(len(list(folder.iterdir())))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes within seconds."""
    for _ in range(20_000):
        if condition():
            return
        await trio.sleep(0.0005)
    raise AssertionError("it never comes")


def text(length: int, seed: int) -> list[int]:
    """Tokens that no other seed has."""
    return random.Random(seed).choices(range(VOCABULARY), k=length)


READ_SECONDS = 0.002


class KVSimulation(Simulation):
    """An engine with tiers.  Made by `open_kv_simulation`."""

    model: KVModel
    watch: KVWatch
    faults: Faults

    def __init__(self, engine: Engine, model: KVModel, watch: KVWatch, faults: Faults, truth: Truth) -> None:
        super().__init__(engine, model, watch, faults)
        self.truth = truth
        watch.isolated = engine.config.isolate_owners

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Self]:
        """Look at the engine, as a listener that is told of blocks as well."""
        async with super().watched():
            with self.watch.published.listening():
                yield self

    @property
    def cache(self) -> PrefixCache:
        """The engine's, to be looked at."""
        return self.manager.cache

    @property
    def ram(self) -> RamTier:
        """Memory tier."""
        return self.cache.tiers.ram

    @property
    def disk(self) -> DiskTier:
        """Disk tier."""
        assert isinstance(self.cache.tiers.disk, SettledDisk)
        return self.cache.tiers.disk.tier

    def rows(self, story: Story, index: int = 0) -> int:
        """Prompt rows that were computed for a generation that finished."""
        owner = (story.asked.id, index)
        rows = sum(run.rows for step in self.steps for run in step.runs if run.owner == owner and run.computed)
        return rows - (len(story.tokens(index, all=True)) - 1)

    def whole(self, story: Story, index: int = 0) -> list[int]:
        """The prompt and the output."""
        return [*story.asked.prompts[index], *story.tokens(index, all=True)]

    def reach(self, tokens: Sequence[int]) -> int:
        """Return how many of a sequence's blocks the tiers have."""
        return self.cache.tiers.reach(self.keys(tokens), 0)

    def keys(self, tokens: Sequence[int]) -> list[BlockKey]:
        """The names of a sequence's complete blocks."""
        return block_keys(ROOT, tokens)

    def as_manager(self) -> AbstractContextManager[None]:
        """Change, in this scope, what only the slot manager's task may change; nothing is awaited in it."""
        assert isinstance(self.cache.owner, LendableOwner)
        return self.cache.owner.borrowed()

    def let_blocks_lie(self) -> None:
        """From now on KV may be loaded that is not its tokens'."""
        self.watch.kv_is_exact = False
        self.model.true_rows = lambda slot: self.truth.rows(self.manager.table.slot(slot).tokens)

    async def settle(self) -> None:
        """Wait until nothing is left to save."""
        await until(lambda: not self.watch.is_moving and not len(self.cache.waiting))

    def evict(self, *, slots: bool = True, ram: bool = False, disk: bool = False, blocks: range | None = None) -> None:
        """Forget what is resident, and blocks of the tiers (by their place among the tier's, oldest first)."""
        with self.as_manager():
            for place in self.manager.table.lent if slots else []:
                self.cache.waiting.forget(place.id)
                self.manager.table.invalidate(place)
            for key in _choose(list(self.ram), blocks) if ram else []:
                self.ram.drop(key)
        if disk:
            assert self.cache.tiers.disk is not None
            self.cache.tiers.disk.drop(_choose(list(self.disk.parents()), blocks))

    def check_exact(self, story: Story) -> None:
        """Check I4 and I15, but for whom a lie has deceived."""
        check_exact(story, self.model, self.watch.deceived)
        check_prompt_outputs(story, self.model, self.watch.deceived)

    def check(self) -> None:
        """Check what holds at any time, of the tiers too."""
        super().check()
        for key in self.ram:
            block = self.ram.get(key)
            assert block is not None
            self._check_block(block)
        if self.cache.tiers.disk is not None:
            if not self.watch.chaos.has_happened(ShortWrite):  # of which the index cannot know
                self.disk.check_integrity()
            assert self.disk.statistics().bytes <= self.disk.statistics().budget, "I6: the disk tier is over its budget"

    def check_disk(self) -> None:
        """Every file holds what it says."""
        for key in self.disk.parents():
            block = self.disk.load(key)
            assert block is not None
            self._check_block(block)

    def _check_block(self, block: Block) -> None:
        rows = unpack(block.data)
        taint = self.model.lies.taint(rows)
        assert not taint & self.model.lies.found, "I10: a block was found wrong, and is kept"
        is_of_tail = block.is_state and block.parent not in self.truth  # whose parent nobody else has
        assert taint or is_of_tail or rows == self.truth.rows_of(block), "a block in a tier is not its tokens'"
        if block.is_state:
            return
        if not self.model.ring:
            assert block.data.shape == (len(block.token_ids), *SHAPE[1:])
            return
        layers = pack_layers(rows, windows=block.whole)
        assert block.data.shape == layers.shape, "I12: a block is not as whole as it says"
        # A sequence that a lie has tainted may have its ring's rows from another slot, which has the true ones.
        assert taint or torch.equal(block.data, layers), "I12: a block in a tier has a window that is not its tokens'"

    def _sums_are_plain(self) -> bool:
        # A prompt that was read again from a clean state has rows that were computed and are not kept.
        failed = any(step.failed for step in self.steps)
        statistics = self.cache.statistics()
        return not (failed or statistics.strikes or statistics.audit_failures) and self.watch.kv_is_exact


def _choose(keys: list[BlockKey], places: range | None) -> list[BlockKey]:
    return keys if places is None else [keys[place] for place in places if place < len(keys)]


@contextmanager
def _cache(
    ram: int,
    disk: SettledDisk | None,
    rings: Rings | None,
    piece: int,
    hold_seconds: float,
    audit_share: float,
    state_buffers: int,
) -> Iterator[PrefixCache]:
    """Yield a cache with room for so many whole blocks in memory, which moves so many at a time."""
    ring_bytes = 0 if rings is None else BLOCK_BYTES
    config = CacheConfig(hold_seconds=hold_seconds, audit_share=audit_share, piece_bytes=piece * BLOCK_BYTES)
    with reads_in_virtual_time(READ_SECONDS, disk):
        yield PrefixCache(
            ROOT,
            BLOCK_BYTES + ring_bytes,
            ring_bytes,
            STATE_BYTES if state_buffers else 0,
            ram=ram * (BLOCK_BYTES + ring_bytes),
            rings=rings,
            disk=disk,
            config=config,
            seed=1,
            owner=LendableOwner(),
        )


DEFAULTS: dict[str, Any] = {"chunk_tokens": 32, "burst_seconds": None}


@asynccontextmanager
async def open_kv_simulation(
    *,
    slots: int = 2,
    context: int = 1024,
    layers: int = 3,
    ram: int = 1000,
    disk: SettledDisk | None = None,
    truth: Truth | None = None,
    hold_seconds: float = 60.0,
    audit_share: float = 0.0,
    piece: int = 2,
    step_seconds: Callable[[int], float] = lambda rows: 0.004 + 0.0001 * rows,
    block_seconds: float = 0.003,
    speculate: Proposer = Proposer.OFF,
    accuracy: float = 0.8,
    vocabulary: int = VOCABULARY,
    end_ids: tuple[int, ...] = (),
    chaos: Chaos | None = None,
    lies: Lies | None = None,
    rings: Rings | None = None,
    state_buffers: int = 0,
    positions: int | None = None,
    **config: Any,  # noqa: ANN401  EngineConfig's
) -> AsyncIterator[KVSimulation]:
    """An engine over the stand-in model, with tiers; at the end, everything must have been given back.

    Args:
        slots: of the device.
        context: tokens that a slot has room for.
        layers: of the model.
        ram: blocks that the RAM tier has room for.
        disk: from `open_settled_disk`.
        truth: of the servers before, if blocks of theirs are still there.
        hold_seconds: as in `CacheConfig`.
        audit_share: likewise.
        piece: blocks moved at a time.
        block_seconds: how long it takes to move a block; to read one from disk takes `READ_SECONDS`.
        step_seconds: as for `open_simulation`, and so are the next four.
        speculate: who drafts.
        accuracy: of the drafter.
        vocabulary: of which the model draws tokens.
        end_ids: end a sequence.
        chaos: faults by step and layer, shutdowns and the like; those of the disk are up to `disk`.
        lies: are told about blocks that are kept.
        rings: of a model with a windowed layer, as `windowed` makes them.
        state_buffers: of one with a recurrent layer.
        positions: of the pool; None for as many as all slots have at their longest.
        config: for `EngineConfig`, before `DEFAULTS`.
    """
    faults, truth = Faults(), truth or Truth()
    kept: dict[str, Any] = {"rings": rings, "state_buffers": state_buffers, "positions": positions}
    model = KVModel(faults, slots=slots, context=context, num_layers=layers, vocabulary=vocabulary, lies=lies, **kept)
    seconds = (lambda rows: step_seconds(rows) / layers), chaos, truth, block_seconds
    watch = KVWatch(model, *seconds, open_drafter(model, speculate, accuracy))
    served = serve_stand_in(context, end_ids, faults, **kept)
    settings = EngineConfig(slots, speculate=speculate, **(DEFAULTS | config))
    with _cache(ram, disk, rings, piece, hold_seconds, audit_share, state_buffers) as cache:
        async with open_engine(watch.device, served, settings, cache, StandInGrammars(faults)) as engine:
            async with KVSimulation(engine, model, watch, faults, truth).watched() as simulation:
                yield simulation
