"""Index of the blocks that a tier holds: how large they are, and which of them goes first.

Least recently used, but only among the *leaves*: a block whose children are held is never the next to go, since its
children could not be reached without it.  Order is kept in a heap of (stamp, key) that is allowed to be late: touching
an entry only raises its stamp, and an item that is found to be out of date when it surfaces is put back or thrown away.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.kv.blocks import BlockKey

SPARE_ITEMS = 64  # of the heap, that may be out of date beside twice as many as there are blocks


@dataclass(slots=True, eq=False)
class IndexEntry:
    """One block that is held.

    Attributes:
        parent: the key of the block before it.
        nbytes: its size.
        stamp: of its last use; larger is later.
    """

    parent: BlockKey
    nbytes: int
    stamp: int


class BlockIndex:
    """Plain data, not locked: its owner sees to that.

    Attributes:
        nbytes: of all blocks that are held.
    """

    def __init__(self) -> None:
        self._entries: dict[BlockKey, IndexEntry] = {}
        self._children: Counter[BlockKey] = Counter()  # blocks held, by parent; the parent may be missing
        self._leaves: list[tuple[int, BlockKey]] = []  # heap
        self._queued: set[BlockKey] = set()  # what is in the heap, once each
        self.nbytes = 0

    def __contains__(self, key: BlockKey) -> bool:
        """Return whether the block is held."""
        return key in self._entries

    def __len__(self) -> int:
        """Return how many blocks are held."""
        return len(self._entries)

    def __iter__(self) -> Iterator[BlockKey]:
        """Yield the keys of the blocks, in the order in which they came."""
        return iter(self._entries)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block that is held."""
        return {key: entry.parent for key, entry in self._entries.items()}

    def get(self, key: BlockKey) -> IndexEntry | None:
        """Return the entry of a block, or None where it is not held."""
        return self._entries.get(key)

    def add(self, key: BlockKey, entry: IndexEntry) -> None:
        """Take in a block that is not held yet."""
        assert key not in self._entries
        self._entries[key] = entry
        self._children[entry.parent] += 1
        self.nbytes += entry.nbytes
        self._enqueue(key, entry)

    def remove(self, key: BlockKey) -> IndexEntry | None:
        """Forget a block; None where it was not held."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.nbytes -= entry.nbytes
        self._children[entry.parent] -= 1
        if not self._children[entry.parent]:
            del self._children[entry.parent]
            parent = self._entries.get(entry.parent)
            if parent is not None:
                self._enqueue(entry.parent, parent)
        if len(self._leaves) > 2 * len(self._entries) + SPARE_ITEMS:  # mostly items of blocks that were removed
            self._rebuild()
        return entry

    def touch(self, key: BlockKey, stamp: int) -> bool:
        """Note a use; False where the block is not held."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        entry.stamp = max(entry.stamp, stamp)
        return True

    def next_to_go(self) -> BlockKey | None:
        """Return the least recently used block without children here; None where nothing is held."""
        while self._leaves:
            stamp, key = self._leaves[0]
            entry = self._entries.get(key)
            if entry is None or key in self._children:
                heapq.heappop(self._leaves)
                self._queued.discard(key)
            elif entry.stamp != stamp:
                heapq.heapreplace(self._leaves, (entry.stamp, key))
            else:
                return key
        return None

    @property
    def queue_length(self) -> int:
        """Length of the queue from which `next_to_go` chooses; a part of it is of blocks that were removed."""
        return len(self._leaves)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the parts agree."""
        assert self.nbytes == sum(entry.nbytes for entry in self._entries.values())
        assert self._children == Counter(entry.parent for entry in self._entries.values())
        assert len(self._queued) == len(self._leaves)
        assert self._queued == {key for _, key in self._leaves}
        assert self._queued >= self._entries.keys() - self._children.keys()
        for stamp, key in self._leaves:
            assert key not in self._entries or stamp <= self._entries[key].stamp

    def _enqueue(self, key: BlockKey, entry: IndexEntry) -> None:
        if key not in self._children and key not in self._queued:
            self._queued.add(key)
            heapq.heappush(self._leaves, (entry.stamp, key))

    def _rebuild(self) -> None:
        self._leaves = [(entry.stamp, key) for key, entry in self._entries.items() if key not in self._children]
        self._queued = {key for _, key in self._leaves}
        heapq.heapify(self._leaves)
