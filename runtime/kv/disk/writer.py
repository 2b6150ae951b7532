"""The one thread that writes blocks, and removes their files."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from runtime.kv.blocks import Block
    from runtime.kv.disk.blocks import DiskBlocks
    from runtime.kv.disk.write_queue import WriteQueue

MAX_LAST_WRITE_SECONDS = 0.5  # that the block in hand has at the end
NICENESS = 10  # of the thread, where threads have priorities of their own: those that compute go first

logger = logging.getLogger("cede.kv")


class DiskWriter:
    """Does what the queue says until that is closed.

    Args:
        blocks, queue: the tier's.
        has_space: called on the writer's thread when blocks were refused, and there is room again.
    """

    def __init__(self, blocks: DiskBlocks, queue: WriteQueue, has_space: Callable[[], object]) -> None:
        self._blocks = blocks
        self._queue = queue
        self._has_space = has_space
        self._removal_fails = False
        self._folder: ExitStack | None = None  # what a writer that outlives its tier keeps open, the lock too
        self._thread = threading.Thread(target=self._run, name="kv-disk-writer", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def end(self, folder: ExitStack) -> None:
        """Let the block in hand be written, unless the disk hangs.

        Args:
            folder: what is open of it.  Who may still write there keeps it, the lock too.
        """
        self._queue.close()
        self._thread.join(MAX_LAST_WRITE_SECONDS)
        if self._thread.is_alive():
            logger.warning("the disk does not answer, and a KV block is left half written")
            self._folder = folder.pop_all()

    def _run(self) -> None:
        _give_way()
        while (job := self._queue.next_job()) is not None:
            self._remove_dropped()
            self._blocks.write_stamps()
            if job.block is not None:
                self._write(job.block)
            if self._queue.finish():
                self._has_space()
        self._remove_dropped()
        self._blocks.write_stamps()

    def _remove_dropped(self) -> None:
        try:
            removed = self._blocks.remove_forgotten()
        except OSError as error:
            if not self._removal_fails:
                logger.warning("KV blocks that failed in use cannot be removed: %s", error.strerror)
            self._removal_fails = True
            return
        self._removal_fails = False
        if removed:
            self._queue.note_space()

    def _write(self, block: Block) -> None:
        try:
            written = self._blocks.write(block, self._queue.is_wanted)
        except OSError as error:
            level = logging.WARNING if self._queue.suspend() else logging.DEBUG
            logger.log(level, "KV blocks are not written to disk for now: %s", error.strerror)
            return
        if self._queue.note_written(written=written):
            logger.info("KV blocks are written to disk again")


def _give_way() -> None:
    """Let the threads that compute go first, where threads have priorities of their own."""
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, which is no reason to write nothing
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
