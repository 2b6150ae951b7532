"""Opens the prefix cache of a model, and at the end writes to disk what it can."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from actors.kv.prefix_cache import PrefixCache
from runtime.common.host_memory import available_memory
from runtime.common.ownership import TaskOwner
from runtime.common.units import MIB, format_size
from runtime.errors import CheckpointError
from runtime.kv.blocks import BLOCK_TOKENS, root_key
from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.tier import DiskTier, open_disk_tier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager

    from actors.kv.config import CacheConfig, TierOptions
    from runtime.checkpoint.open import Checkpoint
    from runtime.kv.blocks import BlockKey
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers

# Of KV that is on its way to disk and perhaps no longer in the memory tier, so much is held beyond its budget.
MAX_QUEUE_BLOCKS = 64
MAX_QUEUE_BYTES = 256 * MIB
STALL_SECONDS = 1.0  # in which the disk has to take a block at the end, or it is waited for no longer
RAM_SHARE = 5  # the memory tier has one part in so many of what is free, unless it is told otherwise

logger = logging.getLogger("cede.kv")


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Layout of the tensors of a model's blocks.

    Attributes:
        whole: the shape of one with the rows of all layers.
        part: of one without those of layers with rings; None where there are no such layers.
        ringed: these layers.
        nbytes: of a whole one.
        ring_bytes: of these, what is of layers with rings.
        state_bytes: of a state of recurrent layers; 0 where there are none.
    """

    whole: tuple[int, ...]
    part: tuple[int, ...] | None
    ringed: tuple[int, ...]
    nbytes: int
    ring_bytes: int
    state_bytes: int

    @classmethod
    def of(cls, kv: KVCache, states: StateBuffers | None) -> _Blocks:
        pieces, *rest, dim = kv.row_shape
        full = pieces if kv.rings is None else kv.full_pieces
        windows = () if kv.rings is None else kv.rings.windows
        ringed = tuple(layer for layer, window in enumerate(windows) if window is not None)
        nbytes = BLOCK_TOKENS * kv.bytes_per_token
        return cls(
            whole=(pieces, *rest, BLOCK_TOKENS, dim),
            part=(full, *rest, BLOCK_TOKENS, dim) if ringed else None,
            ringed=ringed,
            nbytes=nbytes,
            ring_bytes=nbytes // pieces * (pieces - full),
            state_bytes=0 if states is None else states.bytes_per_buffer,
        )

    def root(
        self,
        identity: str,
        dtype: str,
        quantization: str | None,
        rope_factors: str | None,
        *,
        deterministic: bool,
    ) -> BlockKey:
        """Return the name that stands for the model: for its files, and for what was made of them."""
        return root_key(
            fingerprint=identity,
            dtype=dtype,
            kv_shape=self.whole,
            quantization=quantization,
            rope_factors=rope_factors,
            ringed=self.ringed,
            state_bytes=self.state_bytes,
            deterministic=deterministic,
        )


@asynccontextmanager
async def open_prefix_cache(
    options: TierOptions,
    config: CacheConfig,
    checkpoint: Checkpoint,
    identity: str,
    kv: KVCache,
    states: StateBuffers | None = None,
    *,
    quantization: str | None = None,
    rope_factors: str | None = None,
    deterministic: bool = False,
    open_blocks: Callable[..., DiskBlocks] = DiskBlocks,
) -> AsyncIterator[PrefixCache]:
    """Open a cache for the KV of the model of `checkpoint`; its end writes to disk what it can in the flush time.

    Args:
        options: where KV is kept.
        config: how it is kept.
        checkpoint: the model's files.
        identity: their fingerprint from before the weights were read.
        kv: the model's KV in the slots.
        states: of its recurrent layers; None where there are none.
        quantization: what was made of the weights; None if nothing was.
        rope_factors: what `ModelConfig.rope_factors` returned for the slots' context.
        deterministic: whether KV is the same to the bit whatever else was computed with it.
        open_blocks: as for `open_disk_tier`.

    Raises:
        CheckpointError: the files have changed since, so that nobody knows whose KV this model's would be.
        KVFolderError: the disk tier's folder cannot be used, or another server uses it.
    """
    await _check_unchanged(checkpoint, identity)
    blocks, owner = _Blocks.of(kv, states), TaskOwner()
    root = blocks.root(identity, str(kv.dtype), quantization, rope_factors, deterministic=deterministic)
    ram_bytes = available_memory() // RAM_SHARE if options.ram is None else options.ram
    tier: AbstractContextManager[DiskTier | None] = nullcontext()
    if options.folder is not None:
        tier = open_disk_tier(
            options.folder,
            root,
            shape=blocks.whole,
            dtype=kv.dtype,
            budget=options.disk,
            queue_blocks=max(1, min(MAX_QUEUE_BLOCKS, MAX_QUEUE_BYTES // max(blocks.nbytes, blocks.state_bytes))),
            # Called on the writer's thread, while nobody else may come to offer what was refused.
            has_space=_from_thread(lambda: cache.wake()),
            open_blocks=open_blocks,
            part=blocks.part,
            state_bytes=blocks.state_bytes,
            owner=owner,
        )
    with tier as disk:
        sizes = blocks.nbytes, blocks.ring_bytes, blocks.state_bytes
        cache = PrefixCache(root, *sizes, ram=ram_bytes, rings=kv.rings, disk=disk, config=config, owner=owner)
        logger.info("KV blocks beyond the slots: at most %s in memory%s", format_size(ram_bytes), _on_disk(options))
        try:
            yield cache
        finally:
            with trio.CancelScope(shield=True):
                await _write_the_rest(cache, disk, options.flush_seconds)


def _from_thread(call: Callable[[], object]) -> Callable[[], None]:
    """Return what another thread may call to have it called here soon, if Trio still runs then."""
    token = trio.lowlevel.current_trio_token()

    def soon() -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(call)

    return soon


def _on_disk(options: TierOptions) -> str:
    return "" if options.folder is None else f", {format_size(options.disk)} on disk in {options.folder}"


async def _check_unchanged(checkpoint: Checkpoint, identity: str) -> None:
    if await trio.to_thread.run_sync(checkpoint.fingerprint) != identity:
        raise CheckpointError(f"{checkpoint.path}: has changed while the model was loaded from it")


async def _write_the_rest(cache: PrefixCache, disk: DiskTier | None, seconds: float) -> None:
    """Write what the disk tier has not taken or not written yet, for so many seconds, while the disk answers."""
    if disk is None:
        return
    deadline = trio.current_time() + seconds
    queued, taken = 1, False
    while (queued or not taken) and (left := deadline - trio.current_time()) > 0:
        taken = cache.write_behind.offer()
        before = disk.statistics()
        queued = await trio.to_thread.run_sync(disk.flush, min(left, STALL_SECONDS))
        after = disk.statistics()
        if after.suspended or (queued and (after.written, after.dropped) == (before.written, before.dropped)):
            break
    if queued or not taken:
        logger.warning("not all KV was written to disk in time")
