"""Index of the blocks on disk, as memory knows it, and of the files that are still to be removed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.kv.disk.files import block_name
from runtime.kv.index import BlockIndex, IndexEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from runtime.kv.blocks import BlockKey


@dataclass(frozen=True, slots=True)
class DiskIndexStatistics:
    """A snapshot; see `runtime.kv.disk.tier.DiskTierStatistics`."""

    blocks: int
    bytes: int
    written: int
    loaded: int
    evicted: int
    rejected: dict[str, int]


class DiskIndex:
    """The blocks by key.  Thread-safe; its lock is never held over a system call, so nobody waits for a disk here.

    Args:
        budget: bytes of files.
        losses: is told what was evicted or could not be used.
    """

    def __init__(self, budget: int, losses: Losses | None = None) -> None:
        self.budget = budget
        self._losses = losses or Losses()
        self._lock = threading.Lock()  # all that follows
        self._index = BlockIndex()
        self._written = self._loaded = self._evicted = 0
        self._rejected: Counter[str] = Counter()
        self._touched: dict[BlockKey, IndexEntry] = {}  # whose stamps the files do not show yet
        self._last_stamp = 0
        self._refused = b""  # the last block for which there was no room
        self._naming = b""  # the block whose file is given its name now
        self._doomed: set[str] = set()  # files of blocks that were forgotten

    # --- what is there ----------------------------------------------------------------------------------------------

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are here."""
        with self._lock:
            return {key for key in keys if key in self._index}

    def get(self, key: BlockKey) -> IndexEntry | None:
        """Return the entry of a block; None where it is not here."""
        with self._lock:
            return self._index.get(key)

    def sizes(self, keys: Collection[BlockKey]) -> dict[BlockKey, int]:
        """Return the bytes of the files of those of these blocks that are here."""
        with self._lock:
            return {key: entry.nbytes for key in keys if (entry := self._index.get(key)) is not None}

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block."""
        with self._lock:
            return self._index.parents()

    def statistics(self) -> DiskIndexStatistics:
        """Return a snapshot."""
        with self._lock:
            return DiskIndexStatistics(
                blocks=len(self._index),
                bytes=self._index.nbytes,
                written=self._written,
                loaded=self._loaded,
                evicted=self._evicted,
                rejected=dict(self._rejected),
            )

    # --- what is used -----------------------------------------------------------------------------------------------

    def stamp(self) -> int:
        """Return the time in ns, but later than any stamp before, whatever the clock does."""
        with self._lock:
            return self._stamp()

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note a use of blocks in the order of their sequence: parents come out later than children."""
        with self._lock:
            for key in reversed(keys):
                entry = self._index.get(key)
                if entry is not None:
                    self._touch(key, entry)

    def note_loaded(self, key: BlockKey, entry: IndexEntry) -> bool:
        """Count a block that was read, as a use; False if it was removed while it was being read."""
        with self._lock:
            if self._index.get(key) is not entry:
                return False
            self._touch(key, entry)
            self._loaded += 1
            return True

    def take_touched(self) -> dict[BlockKey, IndexEntry]:
        """Return the blocks that were used since the last call."""
        with self._lock:
            touched, self._touched = self._touched, {}
            return touched

    # --- what comes -------------------------------------------------------------------------------------------------

    def find(self, key: BlockKey, entry: IndexEntry) -> bool:
        """Take in a block whose file was found; False if there is another file of that key."""
        with self._lock:
            self._last_stamp = max(self._last_stamp, entry.stamp)
            if key in self._index:
                return False
            self._index.add(key, entry)
            return True

    def make_space(self, need: int, parent: BlockKey | None) -> tuple[bool, str | None]:
        """Take out one block if that is needed for `need` bytes more.

        Neither the newcomer's `parent` is taken out, nor, if that was refused just now, any other: it may descend from
        them.

        Returns:
            Whether there is room; and the file of the block that was taken out, None if none was.
        """
        with self._lock:
            if parent is not None and (entry := self._index.get(parent)) is not None:
                self._touch(parent, entry)
            if self._index.nbytes + need <= self.budget:
                return True, None
            victim = self._index.next_to_go() if need <= self.budget else None
            if victim is None or parent in (victim, self._refused):
                return False, None
            evicted = self._index.remove(victim)
            assert evicted is not None
            self._evicted += 1
            self._losses.note([victim])
            return False, block_name(victim, evicted.parent)

    def note_refused(self, key: BlockKey) -> None:
        """Note that there was no room for a block."""
        with self._lock:
            self._refused = key

    def begin_naming(self, key: BlockKey) -> None:
        """A block's file is about to get its name: from now on `forget` sees to it that it is not indexed."""
        with self._lock:
            self._naming = key

    def end_naming(self, name: str, key: BlockKey, entry: IndexEntry) -> bool:
        """Index a block whose file has just got its name, in place of any before; False if it is forgotten by now."""
        with self._lock:
            if self._naming != key:
                self._doomed.add(name)
                return False
            self._naming = b""
            self._doomed.discard(name)
            self._index.remove(key)  # the file has taken the place of one with the rows of fewer layers
            self._index.add(key, entry)
            self._written += 1
            if key == self._refused:
                self._refused = b""
            return True

    # --- what goes --------------------------------------------------------------------------------------------------

    def forget(self, keys: Collection[BlockKey]) -> None:
        """Let blocks be gone at once, also one that is given its name now; their files are doomed."""
        with self._lock:
            if self._naming in keys:
                self._naming = b""
            entries = [(key, entry) for key in keys if (entry := self._index.remove(key)) is not None]
            self._doomed.update(block_name(key, entry.parent) for key, entry in entries)

    def reject(self, key: BlockKey, entry: IndexEntry, reason: str) -> bool:
        """Take out a block whose file cannot be used; False if it was removed while it was being read: no wonder."""
        with self._lock:
            if self._index.get(key) is not entry:
                return False
            self._index.remove(key)
            self._rejected[reason] += 1
            self._losses.note([key])
            return True

    def note_rejected(self, reason: str) -> None:
        """Count a file that was not taken in."""
        with self._lock:
            self._rejected[reason] += 1

    def doomed(self) -> list[str]:
        """Return the files that are to be removed, in order of their names."""
        with self._lock:
            return sorted(self._doomed)

    def note_removed(self, name: str) -> None:
        """A doomed file is gone."""
        with self._lock:
            self._doomed.discard(name)

    def check_integrity(self, sizes: Mapping[BlockKey, int]) -> None:
        """Raise AssertionError unless the index agrees with itself and with what lies in the folder."""
        with self._lock:
            self._index.check_integrity()
            found = {key: self._index.get(key) for key in self._index}
            assert {key: entry.nbytes for key, entry in found.items() if entry is not None} == sizes
            assert self._index.nbytes <= self.budget

    # --- `_lock` is held --------------------------------------------------------------------------------------------

    def _touch(self, key: BlockKey, entry: IndexEntry) -> None:
        self._index.touch(key, self._stamp())
        self._touched[key] = entry

    def _stamp(self) -> int:
        self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
        return self._last_stamp


class Losses:
    """Names of lost blocks, while somebody wants to know.  Thread-safe; its lock is taken after all others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # all that follows
        self._wake: Callable[[], object] | None = None
        self._lost: list[BlockKey] = []

    def watch(self, wake: Callable[[], object] | None) -> None:
        """Note losses from now on, and call `wake`, which returns at once, when there are some; None for no more."""
        with self._lock:
            self._wake = wake
            self._lost.clear()

    def note(self, keys: Iterable[BlockKey]) -> None:
        """Note that blocks may be gone."""
        with self._lock:
            if self._wake is None:
                return
            first = not self._lost
            self._lost += keys
            wake = self._wake if first and self._lost else None
        if wake is not None:
            wake()

    def take(self) -> list[BlockKey]:
        """Return those that were noted since the last call."""
        with self._lock:
            lost, self._lost = self._lost, []
            return lost
