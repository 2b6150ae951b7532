"""Reads from a disk that may hang: that costs whoever asks some seconds, and the others nothing.

A read that hangs cannot be ended, only left alone.  So it goes on in a thread that nobody joins, and what it still
brings is dropped.  Its time is kept by a task that belongs to no request: a client who leaves sooner must not be the
reason why the next one waits for the same disk again.  So the reader's state is its own, not the slot manager's; it
changes nothing else.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.kv.blocks import Block, BlockKey

MAX_READ_SECONDS = 5.0  # for a piece of at most 32 MiB, or one block
REST_SECONDS = 30.0  # from a read that was late until the disk is asked again, if all that hung has come back by then
MAX_READERS = 8  # threads, of a limit of their own: those that hang are nobody else's loss

logger = logging.getLogger("cede.kv")


@dataclass(slots=True)
class _Read:
    """Result of one read, once it has ended."""

    blocks: dict[BlockKey, Block] = field(default_factory=dict)
    ended: trio.Event = field(default_factory=trio.Event)


class DiskReader:
    """Reads blocks in worker threads, and remembers whether the disk answers.

    Attributes:
        late_reads: that were given up.

    Args:
        load: reads one block, None if it cannot be had; worker threads call it.
    """

    def __init__(self, load: Callable[[BlockKey], Block | None]) -> None:
        self.late_reads = 0
        self._load = load
        self._threads = trio.CapacityLimiter(MAX_READERS)
        self._ask_again_at: float | None = None  # set once a read was late

    @property
    def busy_threads(self) -> int:
        """Return how many of the `MAX_READERS` threads read, or hang."""
        return self._threads.borrowed_tokens

    def answers(self) -> bool:
        """Return whether the disk may be asked: no read hangs, and none was late a short time ago."""
        if self._ask_again_at is None:
            return True
        return not self.busy_threads and trio.current_time() >= self._ask_again_at

    async def read(self, keys: Sequence[BlockKey]) -> dict[BlockKey, Block]:
        """Read these blocks, up to the first that cannot be had; none if they do not come in time."""
        if self._ask_again_at is not None and self.answers():
            self._ask_again_at = None
            logger.info("KV blocks are read from disk again")
        read = _Read()
        trio.lowlevel.spawn_system_task(self._run, read, keys)
        await read.ended.wait()
        return read.blocks

    async def _run(self, read: _Read, keys: Sequence[BlockKey]) -> None:
        try:
            with trio.move_on_after(MAX_READ_SECONDS) as patience:
                # It writes to nobody's KV, so that it may be abandoned.
                read.blocks = await trio.to_thread.run_sync(
                    self._load_chain, keys, abandon_on_cancel=True, limiter=self._threads
                )
        except Exception:
            logger.exception("KV blocks could not be read from disk")
        if patience.cancelled_caught:
            self._note_late()
        read.ended.set()

    def _note_late(self) -> None:
        self.late_reads += 1
        if self._ask_again_at is None:
            logger.warning(
                "the disk has not answered for %g s: KV blocks are not read from it for now", MAX_READ_SECONDS
            )
        self._ask_again_at = trio.current_time() + REST_SECONDS

    def _load_chain(self, keys: Sequence[BlockKey]) -> dict[BlockKey, Block]:
        found: dict[BlockKey, Block] = {}
        for key in keys:
            block = self._load(key)
            if block is None:
                break
            found[key] = block
        return found
