"""The disk tier: blocks handed in are written behind the server's back, and found again after a restart.

The slot manager's thread asks, hands in and drops; worker threads load; one thread writes, evicts and unlinks, and its
one owner is `open_disk_tier`.  What must never happen is that a dropped block comes back.  So it is forgotten in the
same moment; the writer asks whether its block is still wanted just before it gives the file its name; and the files
of what was dropped are unlinked before anything else is written.  Who drops waits for no disk.

After a kill between the drop and the unlinking, perhaps because the disk did not answer any more, the next start finds
such files again: a disk that takes nothing takes no note about them either.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.folder import KVFolderError, locked_folder, opened_root
from runtime.ownership import TaskOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import torch

    from runtime.kv.blocks import Block, BlockKey

BACKOFF, LONGEST_BACKOFF = 5.0, 60.0  # seconds until a disk that refused a write is tried again
LAST_WRITE_SECONDS = 5.0  # that the block in hand has at the end

logger = logging.getLogger("cede.kv")


@dataclass(frozen=True, slots=True)
class DiskTierStatistics:
    """How the tier stands, and what has happened since it was opened."""

    blocks: int
    bytes: int  # of whole files
    budget: int
    queued: int  # handed in, not on disk yet
    written: int
    loaded: int
    dropped: int  # taken but never written: the disk refused, or there was no room in the budget
    struck: int  # taken out by `drop`
    evicted: int
    rejected: Mapping[str, int]  # files that could not be used, by reason
    write_errors: int
    suspended: bool  # the disk refused a write, and none has succeeded since


@contextmanager
def open_disk_tier(
    folder: Path,
    root: BlockKey,
    *,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    budget: int,
    queue_blocks: int = 64,
    has_room: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    open_blocks: Callable[[int, BlockKey, tuple[int, ...], torch.dtype, int], DiskBlocks] = DiskBlocks,
    owner: TaskOwner | None = None,
) -> Iterator[DiskTier]:
    """The tier in `folder` for the model of `root`, whose blocks are tensors of `shape` and `dtype`.

    `budget` bounds the bytes of this model's files alone; other models' lie beside them, untouched.  When the scope
    ends the block in hand is written, unless the disk hangs, and what is still queued is let go (see `flush`).
    `has_room` is called on the writer's thread when blocks were refused, by the disk too, and the queue is half empty.
    `open_blocks` may put another kind of disk in place of the real one.

    Raises:
        KVFolderError: the folder cannot be used, or another server uses it.
    """
    with ExitStack() as stack:
        stack.enter_context(locked_folder(folder))
        root_folder = stack.enter_context(opened_root(folder, root, create=True))
        try:
            blocks = open_blocks(root_folder, root, shape, dtype, budget)
        except OSError as error:
            raise KVFolderError(f"{folder}: cannot be used for KV blocks: {error.strerror}") from error
        tier = DiskTier(blocks, queue_blocks, has_room, clock, owner or TaskOwner())
        writer = threading.Thread(target=tier._write_behind, name="kv-disk-writer", daemon=True)
        writer.start()
        try:
            yield tier
        finally:
            tier._close()
            writer.join(LAST_WRITE_SECONDS)
            if writer.is_alive():
                logger.warning("the disk does not answer, and a KV block is left half written")
                tier._held = stack.pop_all()  # who may still write there keeps the lock


class DiskTier:
    """Made by `open_disk_tier`.  Any thread may call; `load` and `flush` wait for the disk, nothing else does."""

    def __init__(
        self,
        blocks: DiskBlocks,
        queue_blocks: int,
        has_room: Callable[[], object],
        clock: Callable[[], float],
        owner: TaskOwner,
    ) -> None:
        self._owner = owner
        self._blocks, self._queue_blocks, self._has_room, self._clock = blocks, queue_blocks, has_room, clock
        self._lock = threading.Lock()  # all that follows; taken after DiskBlocks' `_files`, before its `_lock`
        self._work = threading.Condition(self._lock)  # for the writer: there is something to do
        self._idle = threading.Condition(self._lock)  # for `flush`: there is nothing left to do
        self._queue: dict[BlockKey, Block] = {}  # in the order in which they came
        self._has_refused = False  # a block, and nobody was told that there is room
        self._refused: list[BlockKey] = []  # for `take_refused`
        self._writing: Block | None = None
        self._unwanted = False  # `_writing` was dropped meanwhile
        self._stamps_due = False
        self._removal_due = False
        self._removal_fails = False
        self._busy = False
        self._closing = False
        self._resume_at: float | None = None  # set while writing is suspended
        self._held: ExitStack  # the folder, of a writer that outlives its scope
        self._backoff = BACKOFF
        self._from_queue = self._dropped = self._struck = self._write_errors = 0

    def __contains__(self, key: BlockKey) -> bool:
        """Whether `load` would find it: on disk, or on its way there."""
        with self._lock:
            return self._pending(key) is not None or key in self._blocks

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Those of these that `load` would find."""
        with self._lock:
            return {key for key in keys if self._pending(key) is not None} | self._blocks.held(keys)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """The parent of each block that `load` would find."""
        with self._lock:
            pending = [block for block in (self._writing, *self._queue.values()) if block is not None]
            coming = {block.key: block.parent for block in pending if self._pending(block.key) is not None}
            return coming | self._blocks.parents()

    def __len__(self) -> int:
        """Blocks on disk."""
        return len(self._blocks)

    def put_nowait(self, block: Block) -> bool:
        """Hand a block to the writer; False when it was refused, and may be offered again.

        One that is held or queued already is a success.

        Raises:
            ValueError: the tensor is not one of this model's.
        """
        self._owner.check()
        self._blocks.check_fits(block)
        with self._lock:
            if self._pending(block.key) is not None or block.key in self._blocks:
                return True
            if self._closing or self._waiting_for_room() or len(self._queue) >= self._queue_blocks:
                self._has_refused = True
                return False
            self._queue[block.key] = block
            self._work.notify()
            return True

    def load(self, key: BlockKey) -> Block | None:
        """The verified block, or None for a miss; a file that cannot be used is forgotten, with one log line."""
        with self._lock:
            pending = self._pending(key)
            if pending is not None:
                self._from_queue += 1
                return pending
            if self._closing:
                return None
        return self._blocks.load(key)  # its stamp is written when the writer wakes next: waking it would cost the load

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Take blocks out at once and for good, be they on disk, queued, or being written; the writer unlinks them."""
        self._owner.check()
        with self._lock:
            struck = {key for key in keys if self._pending(key) is not None} | self._blocks.held(keys)
            if self._writing is not None and not self._unwanted:  # else it stays so, though it may be queued again
                self._unwanted = self._writing.key in struck
            for key in struck:
                self._queue.pop(key, None)
            self._blocks.forget(struck)
            self._struck += len(struck)
            self._removal_due = self._removal_due or bool(struck)
            self._work.notify()

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note that blocks were used; `keys` in the order of their sequence, so that parents come out later."""
        self._owner.check()
        self._blocks.touch(keys)
        with self._lock:
            self._stamps_due = True
            self._work.notify()

    def take_refused(self) -> list[BlockKey]:
        """The blocks that were taken since the last call, and that the disk then refused; they may be offered again."""
        self._owner.check()
        with self._lock:
            refused, self._refused = self._refused, []
            return refused

    def flush(self, timeout: float) -> int:
        """Wait until all that was handed in is on disk, or `timeout` seconds; returns how many blocks are not."""
        with self._lock:
            self._idle.wait_for(
                lambda: not (self._queue or self._stamps_due or self._removal_due or self._busy), timeout
            )
            return len(self._queue) + (self._writing is not None)

    def statistics(self) -> DiskTierStatistics:
        """A snapshot."""
        blocks = self._blocks
        with self._lock:
            return DiskTierStatistics(
                blocks=len(blocks),
                bytes=blocks.nbytes,
                budget=blocks.budget,
                queued=len(self._queue) + (self._writing is not None),
                written=blocks.written,
                loaded=blocks.loaded + self._from_queue,
                dropped=self._dropped,
                struck=self._struck,
                evicted=blocks.evicted,
                rejected=dict(blocks.rejected),
                write_errors=self._write_errors,
                suspended=self._resume_at is not None,
            )

    def check_integrity(self) -> None:
        """Raise AssertionError unless the index agrees with the folder; for tests, after `flush`."""
        with self._lock:
            assert not self._queue
            assert not self._busy
        self._blocks.check_integrity()

    # --- `_lock` is held --------------------------------------------------------------------------------------------

    def _pending(self, key: BlockKey) -> Block | None:
        """The block, if it has been handed in and is not done with."""
        if self._writing is not None and self._writing.key == key and not self._unwanted:
            return self._writing
        return self._queue.get(key)

    def _waiting_for_room(self) -> bool:
        return self._resume_at is not None and self._clock() < self._resume_at

    # --- the writer -------------------------------------------------------------------------------------------------

    def _write_behind(self) -> None:
        """The body of the writer's thread."""
        _give_way()
        while self._take():
            self._remove_dropped()
            self._blocks.write_stamps()
            if self._writing is not None:
                self._write(self._writing)
            with self._lock:
                self._writing = None
                self._busy = False
                has_room = self._has_refused and 2 * len(self._queue) <= self._queue_blocks
                self._has_refused = self._has_refused and not has_room
                self._idle.notify_all()
            if has_room:
                self._has_room()
        self._remove_dropped()
        self._blocks.write_stamps()

    def _take(self) -> bool:
        """Wait for something to do, and take the next block if it is that; False at the end."""
        with self._lock:
            self._work.wait_for(lambda: self._queue or self._stamps_due or self._removal_due or self._closing)
            if self._closing:
                return False
            self._busy, self._stamps_due, self._removal_due, self._unwanted = True, False, False, False
            if self._queue:
                self._writing = self._queue.pop(next(iter(self._queue)))
            return True

    def _remove_dropped(self) -> None:
        try:
            removed = self._blocks.remove_forgotten()
        except OSError as error:
            if not self._removal_fails:
                logger.warning("KV blocks that failed in use cannot be removed: %s", error.strerror)
            self._removal_fails = True
            return
        self._removal_fails = False
        with self._lock:
            if removed and self._resume_at is not None:
                self._resume_at = self._clock()  # there is room again

    def _write(self, block: Block) -> None:
        try:
            written = self._blocks.write(block, self._wanted)
        except OSError as error:
            self._suspend(block, error)
            return
        with self._lock:
            self._dropped += not written and not self._unwanted
            resumed = written and self._resume_at is not None
            if resumed:
                self._resume_at, self._backoff = None, BACKOFF
        if resumed:
            logger.info("KV blocks are written to disk again")

    def _wanted(self) -> bool:
        with self._lock:
            return not self._unwanted

    def _suspend(self, block: Block, error: OSError) -> None:
        """Write nothing for a while.  What is queued is let go, not held in memory for a disk that may stay full."""
        with self._lock:
            first = self._resume_at is None
            self._write_errors += 1
            self._refused += [*([] if self._unwanted else [block.key]), *self._queue]
            self._has_refused = True
            self._dropped += 1 + len(self._queue)
            self._queue.clear()
            self._resume_at = self._clock() + self._backoff
            self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "KV blocks are not written to disk for now: %s", error.strerror)

    def _close(self) -> None:
        with self._lock:
            self._closing = True
            self._dropped += len(self._queue)
            self._queue.clear()
            self._work.notify()


def _give_way() -> None:
    """Let the threads that compute go first, where threads have priorities of their own."""
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, which is no reason to write nothing
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
