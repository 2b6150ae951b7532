"""Queue of the disk tier's writer: blocks that are on their way to disk, and files to be removed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.disk.blocks import DiskBlocks

RETRY_SECONDS = 5.0  # until a disk that refused a write is tried again; twice as long after each further refusal
MAX_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """One round of the writer: it removes what was dropped, notes what was used, and writes `block` if there is one."""

    block: Block | None


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of the queue; see `runtime.kv.disk.tier.DiskTierStatistics`."""

    queued: int
    lent: int
    dropped: int
    struck: int
    write_errors: int
    suspended: bool


class WriteQueue:
    """Blocks in the order in which they came, and the one that is being written.  Thread-safe; no method waits for it.

    Its lock is taken after `DiskBlocks`' lock of files and before its lock of memory.

    Args:
        blocks: what lies on disk.
        limit: blocks that may be queued.
        clock: seconds, for the pauses of a disk that refuses writes.
    """

    def __init__(self, blocks: DiskBlocks, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._blocks = blocks
        self._clock = clock
        self._lock = threading.Lock()  # all that follows
        self._work = threading.Condition(self._lock)  # for the writer: there is something to do
        self._idle = threading.Condition(self._lock)  # for `wait_until_done`: there is nothing left to do
        self._queue: dict[BlockKey, Block] = {}
        self._writing: Block | None = None
        self._unwanted = False  # `_writing` was dropped meanwhile
        self._refused: list[BlockKey] = []  # for `take_refused`
        self._has_refused = False  # a block, and nobody was told that there is room
        self._stamps_due = False
        self._removal_due = False
        self._busy = False
        self._closing = False
        self._resume_at: float | None = None  # set while writing is suspended
        self._pause = RETRY_SECONDS
        self._lent = self._dropped = self._invalidated = self._write_errors = 0

    # --- for whoever hands in, asks and drops -----------------------------------------------------------------------

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are on disk or on their way there."""
        with self._lock:
            return self._held(keys)

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are on disk or on their way there with the rows of all layers."""
        with self._lock:
            return self._whole(keys)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block that is on disk or on its way there."""
        with self._lock:
            waiting = [block for block in (self._writing, *self._queue.values()) if block is not None]
            coming = {block.key: block.parent for block in waiting if self._pending(block.key) is not None}
            return coming | self._blocks.parents()

    def put(self, block: Block) -> bool:
        """Queue a block, unless it is held already; False if it is refused for now."""
        with self._lock:
            if self._whole([block.key]) if block.whole else self._held([block.key]):
                return True
            if self._closing or self._is_pausing() or len(self._queue) >= self.limit:
                self._has_refused = True
                return False
            self._queue[block.key] = block
            self._work.notify()
            return True

    def lend(self, key: BlockKey) -> Block | None:
        """Return a block that is on its way, to be read without the disk."""
        with self._lock:
            pending = self._pending(key)
            self._lent += pending is not None
            return pending

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Let blocks be gone at once and for good, be they on disk, queued or being written."""
        with self._lock:
            invalidated = self._held(keys)
            if self._writing is not None and not self._unwanted:  # else it stays so, though it may be queued again
                self._unwanted = self._writing.key in invalidated
            for key in invalidated:
                self._queue.pop(key, None)
            self._blocks.forget(invalidated)
            self._blocks.losses.note(invalidated)
            self._invalidated += len(invalidated)
            self._removal_due = self._removal_due or bool(invalidated)
            self._work.notify()

    def note_use(self) -> None:
        """Have the writer note in the files which blocks were used."""
        with self._lock:
            self._stamps_due = True
            self._work.notify()

    def take_refused(self) -> list[BlockKey]:
        """Return the blocks that were taken since the last call and that the disk then refused."""
        with self._lock:
            refused, self._refused = self._refused, []
            return refused

    def wait_until_done(self, timeout: float) -> int:
        """Wait until there is nothing left to do, or `timeout` seconds; returns how many blocks are not on disk."""
        with self._lock:
            self._idle.wait_for(self._is_done, timeout)
            return self._unwritten()

    def close(self) -> None:
        """Let go of what is queued, and take nothing any more."""
        with self._lock:
            self._closing = True
            self._dropped += len(self._queue)
            queued = list(self._queue)
            self._queue.clear()
            self._blocks.losses.note(queued)
            self._work.notify()

    @property
    def is_closed(self) -> bool:
        """Return whether `close` was called."""
        with self._lock:
            return self._closing

    def statistics(self) -> QueueStatistics:
        """Return a snapshot."""
        with self._lock:
            return QueueStatistics(
                queued=self._unwritten(),
                lent=self._lent,
                dropped=self._dropped,
                struck=self._invalidated,
                write_errors=self._write_errors,
                suspended=self._resume_at is not None,
            )

    # --- for the writer ---------------------------------------------------------------------------------------------

    def next_job(self) -> Job | None:
        """Wait for something to do, and take the next block if there is one; None at the end."""
        with self._lock:
            self._work.wait_for(lambda: self._closing or not self._is_done())
            if self._closing:
                return None
            self._busy, self._stamps_due, self._removal_due, self._unwanted = True, False, False, False
            if self._queue:
                self._writing = self._queue.pop(next(iter(self._queue)))
            return Job(self._writing)

    def is_wanted(self) -> bool:
        """Return whether the block that is being written was not dropped meanwhile."""
        with self._lock:
            return not self._unwanted

    def note_written(self, *, written: bool) -> bool:
        """Note whether there was room for the block in hand; True if the disk had refused writes and now took one."""
        with self._lock:
            self._dropped += not written and not self._unwanted
            resumed = written and self._resume_at is not None
            if resumed:
                self._resume_at, self._pause = None, RETRY_SECONDS
            return resumed

    def suspend(self) -> bool:
        """Take nothing for a while: the disk refused a write.  True if it had not refused the last one.

        What is queued is given back, not held in memory for a disk that may stay full.
        """
        with self._lock:
            first = self._resume_at is None
            self._write_errors += 1
            in_hand = [] if self._unwanted or self._writing is None else [self._writing.key]
            self._refused += [*in_hand, *self._queue]
            self._has_refused = True
            self._dropped += 1 + len(self._queue)
            queued = list(self._queue)
            self._queue.clear()
            self._blocks.losses.note(queued)
            self._resume_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, MAX_RETRY_SECONDS)
            return first

    def note_space(self) -> None:
        """Files were removed: a disk that refused a write may be tried again at once."""
        with self._lock:
            if self._resume_at is not None:
                self._resume_at = self._clock()

    def finish(self) -> bool:
        """End the job; True if blocks were refused before and there is room again, which is said once."""
        with self._lock:
            in_hand = [] if self._writing is None else [self._writing.key]
            self._writing = None
            self._blocks.losses.note(set(in_hand) - self._held(in_hand))
            self._busy = False
            has_space = self._has_refused and 2 * len(self._queue) <= self.limit
            self._has_refused = self._has_refused and not has_space
            self._idle.notify_all()
            return has_space

    # --- `_lock` is held --------------------------------------------------------------------------------------------

    def _held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        return {key for key in keys if self._pending(key) is not None} | self._blocks.held(keys)

    def _whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        pending = {key for key in keys if (block := self._pending(key)) is not None and block.whole}
        return pending | self._blocks.whole(keys)

    def _pending(self, key: BlockKey) -> Block | None:
        """Return the block if it was handed in and is not done with; the later one where it is two."""
        if key in self._queue:
            return self._queue[key]
        return self._writing if self._writing is not None and self._writing.key == key and not self._unwanted else None

    def _is_pausing(self) -> bool:
        return self._resume_at is not None and self._clock() < self._resume_at

    def _is_done(self) -> bool:
        return not (self._queue or self._stamps_due or self._removal_due or self._busy)

    def _unwritten(self) -> int:
        return len(self._queue) + (self._writing is not None)
