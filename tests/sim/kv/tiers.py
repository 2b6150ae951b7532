"""A disk tier and worker threads in virtual time: nothing depends on how fast a thread is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import outcome
import torch
import trio

from runtime.kv.blocks import Block, BlockKey
from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.files import BlockHeader, BlockLayout, block_name, checksum, encode_header
from runtime.kv.disk.tier import DiskTier, DiskTierStatistics, open_disk_tier
from runtime.testing.faults import Chaos, ShortWrite
from runtime.testing.simulated import STATE_BYTES
from runtime.testing.unreliable import UnreliableBlocks
from tests.sim.history import ROOT, SHAPE
from tests.sim.kv.device import DTYPE, pack

T = TypeVar("T")

BLOCK_BYTES = 4 * SHAPE[0] * SHAPE[1]
FILE_BYTES = 4096 + BLOCK_BYTES


class SettledDisk:
    """A disk tier whose writer is always done.

    Attributes:
        late: seconds by which the read that has just been made is slow, and which are still to pass.
    """

    def __init__(self) -> None:
        self.tier: DiskTier
        self.late = 0.0

    def be_late(self, seconds: float) -> None:
        """Add to the seconds by which the next read is slow."""
        self.late += seconds

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return which of these blocks are there."""
        return self.tier.held(keys)

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return which of these blocks are there with the rows of all layers."""
        return self.tier.whole(keys)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """The parent of each block."""
        return self.tier.parents()

    def put_nowait(self, block: Block) -> bool:
        """Write a block, and wait until that is done."""
        taken = self.tier.put_nowait(block)
        assert self.tier.flush(10.0) == 0
        return taken

    def take_refused(self) -> list[BlockKey]:
        """The blocks that were refused since the last call."""
        return self.tier.take_refused()

    def watch_losses(self, wake: Callable[[], object] | None) -> None:
        """Tell when a block may be gone."""
        self.tier.watch_losses(wake)

    def take_lost(self) -> list[BlockKey]:
        """The blocks that are gone since the last call."""
        return self.tier.take_lost()

    def load(self, key: BlockKey) -> Block | None:
        """Read a block."""
        return self.tier.load(key)

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Drop blocks, and wait until that is done."""
        self.tier.drop(keys)
        assert self.tier.flush(10.0) == 0

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note the use of a chain, and wait until that is done."""
        self.tier.touch(keys)
        assert self.tier.flush(10.0) == 0

    def statistics(self) -> DiskTierStatistics:
        """A frozen snapshot."""
        return self.tier.statistics()


@contextmanager
def open_settled_disk(
    folder: Path, *, blocks: int = 1000, chaos: Chaos | None = None, windowed: bool = False, states: bool = False
) -> Iterator[SettledDisk]:
    """The disk tier in `folder`, with room for so many blocks; nothing is fsynced, since nothing crashes here.

    If `windowed`, blocks have a second layer, or lack it; and there are states besides if `states`.
    """
    disk, budget = SettledDisk(), blocks * (FILE_BYTES + BLOCK_BYTES * windowed)
    layout: dict[str, Any] = {"shape": (2, *SHAPE), "part": (1, *SHAPE)} if windowed else {"shape": SHAPE}
    layout["state_bytes"] = STATE_BYTES if states else 0
    kind: Callable[..., DiskBlocks] = DiskBlocks
    if chaos is not None:
        kind = partial(UnreliableBlocks, chaos=chaos, sleep=disk.be_late)
    with (
        mock.patch("os.fsync"),
        open_disk_tier(folder, ROOT, dtype=DTYPE, budget=budget, open_blocks=kind, **layout) as tier,
    ):
        disk.tier = tier
        yield disk
        if chaos is None or not chaos.has_happened(ShortWrite):  # of which the index cannot know
            tier.check_integrity()


def block_file(folder: Path, block: Block) -> Path:
    """Return where a block lies."""
    return folder / ROOT.hex() / block_name(block.key, block.parent)


def rewrite(folder: Path, block: Block, rows: Sequence[int]) -> None:
    """Give a block's file other contents, and a checksum that fits them."""
    data = pack(rows).view(torch.uint8).numpy().reshape(-1)
    layout = BlockLayout("F32", SHAPE)
    header = BlockHeader(ROOT, block.key, block.parent, block.token_ids, layout, checksum(data))
    block_file(folder, block).write_bytes(encode_header(header) + data.tobytes())


@contextmanager
def reads_in_virtual_time(seconds: float, disk: SettledDisk | None = None) -> Iterator[None]:
    """Worker threads' work is done by tasks, and takes so long, or as long as `disk` is late.

    Like a thread's, it is not begun by a caller who is cancelled, and goes on to its end if that caller leaves.
    """

    async def run_sync(
        function: Callable[..., T],
        *args: Any,  # noqa: ANN401
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter,
    ) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        results: list[outcome.Outcome[T]] = []
        ended = trio.Event()

        async def work() -> None:
            await trio.sleep(seconds / 2)
            results.append(outcome.capture(function, *args))
            late = 0.0
            if disk is not None:
                late, disk.late = disk.late, 0.0
            await trio.sleep(seconds / 2 + late)  # until the loop hears of it
            limiter.release_on_behalf_of(ended)
            ended.set()

        await limiter.acquire_on_behalf_of(ended)
        trio.lowlevel.spawn_system_task(work)
        with trio.CancelScope(shield=not abandon_on_cancel):
            await ended.wait()
        return results[0].unwrap()

    with mock.patch.object(trio.to_thread, "run_sync", run_sync):
        yield
