"""Blocks that are kept in memory and that the disk has not taken yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.kv.tiers import Tiers
    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import Block, BlockKey

SPARE_NAMES = 64  # blocks: names of some that have left the memory are put up with until there are so many


class WriteBehind:
    """The names of those blocks, in the order in which they were kept.

    The disk tier refuses blocks while its queue is full or the disk is, and even gives back what it had taken.  What
    leaves the memory meanwhile is given up.

    Args:
        tiers: from and to which blocks go.
        owner: the one task that may change this.
    """

    def __init__(self, tiers: Tiers, owner: TaskOwner) -> None:
        self._tiers = tiers
        self._owner = owner
        self._unwritten: deque[BlockKey] = deque()

    def __len__(self) -> int:
        """Return how many names wait, of which some may be of blocks that have left the memory."""
        return len(self._unwritten)

    def add(self, block: Block) -> None:
        """Offer the disk a new block, although the memory may have had no room for it."""
        self._owner.check()
        self._unwritten.append(block.key)
        self.offer(block)
        if len(self._unwritten) > 2 * len(self._tiers.ram) + SPARE_NAMES:
            self._unwritten = deque(dict.fromkeys(key for key in self._unwritten if key in self._tiers.ram))

    def offer(self, newest: Block | None = None) -> bool:
        """Offer the disk what it has not taken, as long as it takes it; False if something is left.

        Args:
            newest: a block that may not be in memory.
        """
        self._owner.check()
        ram, disk = self._tiers.ram, self._tiers.disk
        if disk is None:
            self._unwritten.clear()
            return True
        self._unwritten.extendleft(reversed(disk.take_refused()))
        while self._unwritten:
            key = self._unwritten[0]
            block = newest if newest is not None and newest.key == key else ram.get(key)
            if block is not None and not self._tiers.hand_in(block):
                return False
            self._unwritten.popleft()
        return True
