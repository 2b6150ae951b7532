"""The disk tier: blocks handed in are written behind the server's back, and found again after a restart.

The slot manager's task asks, hands in and drops; worker threads load; one thread writes, evicts and unlinks.  What must
never happen is that a dropped block comes back.  So it is forgotten in the same moment; the writer asks whether its
block is still wanted just before it gives the file its name; and the files of what was dropped are unlinked before
anything else is written.  Who drops waits for no disk.

After a kill between the drop and the unlinking, perhaps because the disk did not answer any more, the next start finds
such files again: a disk that takes nothing takes no note about them either.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.ownership import TaskOwner
from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.folder import KVFolderError, locked_folder, opened_root
from runtime.kv.disk.write_queue import WriteQueue
from runtime.kv.disk.writer import DiskWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    import torch

    from runtime.kv.blocks import Block, BlockKey

QUEUE_BLOCKS = 64  # that wait in memory to be written, unless the opener says otherwise


@dataclass(frozen=True, slots=True)
class DiskTierStatistics:
    """KV on disk, and what has happened to it since the start.

    Attributes:
        bytes: of whole files.
        budget: the most bytes.
        queued: blocks that were handed in, and are not on disk yet.
        written, loaded: blocks, so far.
        dropped: blocks that were taken but never written, because the disk refused or the budget had no room.
        struck: blocks that were dropped because KV was found wrong.
        evicted: blocks that the budget had no room for, so far.
        rejected: files that could not be used, by reason.
        write_errors: writes that the disk refused, so far.
        suspended: the disk refused a write, and none has succeeded since.
    """

    blocks: int
    bytes: int
    budget: int
    queued: int
    written: int
    loaded: int
    dropped: int
    struck: int
    evicted: int
    rejected: dict[str, int]
    write_errors: int
    suspended: bool


@contextmanager
def open_disk_tier(
    folder: Path,
    root: BlockKey,
    *,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    budget: int,
    queue_blocks: int = QUEUE_BLOCKS,
    has_space: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    open_blocks: Callable[..., DiskBlocks] = DiskBlocks,
    part: tuple[int, ...] | None = None,
    state_bytes: int = 0,
    owner: TaskOwner | None = None,
) -> Iterator[DiskTier]:
    """Open the tier in `folder` for the model of `root`, whose blocks are tensors of `shape` and `dtype`.

    When the scope ends the block in hand is written, unless the disk hangs, and what is still queued is let go (see
    `DiskTier.flush`).

    Args:
        folder: is made if it is missing, and locked.
        root: the key that stands for the model.
        shape: of a block's tensor.
        dtype: of it.
        budget: bytes of this model's files; other models' lie beside them, untouched.
        queue_blocks: that may wait in memory to be written.
        has_space: called on the writer's thread when blocks were refused, by the disk too, and the queue is half empty.
        clock: seconds.
        open_blocks: puts another kind of disk in place of the real one; as `DiskBlocks`.
        part: the shape of a block's tensor without the rows of layers with rings; None where there are no such layers.
        state_bytes: of a state of recurrent layers; 0 where there are none.
        owner: the one task that may hand in, drop and touch.

    Raises:
        KVFolderError: the folder cannot be used, or another server uses it.
    """
    with ExitStack() as stack:
        stack.enter_context(locked_folder(folder))
        root_folder = stack.enter_context(opened_root(folder, root, create=True))
        try:
            blocks = open_blocks(root_folder, root, shape, dtype, budget, part, state_bytes)
        except OSError as error:
            raise KVFolderError(f"{folder}: cannot be used for KV blocks: {error.strerror}") from error
        queue = WriteQueue(blocks, queue_blocks, clock)
        writer = DiskWriter(blocks, queue, has_space)
        writer.start()
        try:
            yield DiskTier(blocks, queue, owner or TaskOwner())
        finally:
            writer.end(stack)


class DiskTier:
    """Blocks on disk and on their way there.  Made by `open_disk_tier`.

    Any thread may look and load; only the owner's task hands in, drops and touches.  `load` and `flush` wait for the
    disk, nothing else does.

    Args:
        blocks: what lies on disk.
        queue: what is to be written.
        owner: the one task that may change this.
    """

    def __init__(self, blocks: DiskBlocks, queue: WriteQueue, owner: TaskOwner) -> None:
        self._blocks = blocks
        self._queue = queue
        self._owner = owner

    @property
    def queue_blocks(self) -> int:
        """Blocks that may wait in memory to be written."""
        return self._queue.limit

    def __contains__(self, key: BlockKey) -> bool:
        """Return whether `load` would find the block: on disk, or on its way there."""
        return bool(self._queue.held([key]))

    def __len__(self) -> int:
        """Return how many blocks are on disk."""
        return self._blocks.statistics().blocks

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that `load` would find."""
        return self._queue.held(keys)

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that `load` would find with the rows of all layers."""
        return self._queue.whole(keys)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block that `load` would find."""
        return self._queue.parents()

    def put_nowait(self, block: Block) -> bool:
        """Hand a block to the writer; False when it was refused, and may be offered again.

        One that is held or queued already is a success.

        Raises:
            ValueError: the tensor is not one of this model's.
        """
        self._owner.check()
        self._blocks.check_fits(block)
        return self._queue.put(block)

    def load(self, key: BlockKey) -> Block | None:
        """Return the verified block, or None for a miss; a file that cannot be used is forgotten, with one log line."""
        pending = self._queue.lend(key)
        if pending is not None or self._queue.is_closed:
            return pending
        return self._blocks.load(key)  # its stamp is written when the writer wakes next: waking it would cost the load

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Take blocks out at once and for good, be they on disk, queued, or being written; the writer unlinks them."""
        self._owner.check()
        self._queue.drop(keys)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note that blocks were used; `keys` in the order of their sequence, so that parents come out later."""
        self._owner.check()
        self._blocks.touch(keys)
        self._queue.note_use()

    def take_refused(self) -> list[BlockKey]:
        """Return the blocks that were taken since the last call, and then refused by the disk, to be offered again."""
        self._owner.check()
        return self._queue.take_refused()

    def watch_losses(self, wake: Callable[[], object] | None) -> None:
        """Have `wake` called, in any thread, when a block may be gone; None for no more.

        What is called returns at once, and asks nothing of the tier.
        """
        self._blocks.losses.watch(wake)

    def take_lost(self) -> list[BlockKey]:
        """Return the blocks that are gone since the last call, and perhaps others."""
        return self._blocks.losses.take()

    def flush(self, timeout: float) -> int:
        """Wait until all that was handed in is on disk, or `timeout` seconds; returns how many blocks are not."""
        return self._queue.wait_until_done(timeout)

    def close(self) -> None:
        """Let go of what is queued, and take nothing any more; the end of the scope does it, too."""
        self._queue.close()

    def statistics(self) -> DiskTierStatistics:
        """Return a snapshot."""
        blocks, queue = self._blocks.statistics(), self._queue.statistics()
        return DiskTierStatistics(
            blocks=blocks.blocks,
            bytes=blocks.bytes,
            budget=self._blocks.budget,
            queued=queue.queued,
            written=blocks.written,
            loaded=blocks.loaded + queue.lent,
            dropped=queue.dropped,
            struck=queue.struck,
            evicted=blocks.evicted,
            rejected=blocks.rejected,
            write_errors=queue.write_errors,
            suspended=queue.suspended,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError unless the index agrees with the folder; for tests, after `flush`."""
        assert self.flush(0) == 0, "blocks are still to be written"
        self._blocks.check_integrity()
