"""KV blocks in host memory, within a budget of bytes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.held import HeldBlocks


@dataclass(frozen=True, slots=True)
class RamTierStatistics:
    """KV in host memory.

    Attributes:
        bytes, budget: of the blocks, and of as many as there may be.
        evictions: blocks that it had to let go.
    """

    blocks: int
    bytes: int
    budget: int
    evictions: int


class RamTier:
    """Immutable blocks by key.  The least recently used goes first, and never before its children.

    A child without its parent could not be reached, so it would be dead weight.  `hold` names blocks that go last, for
    a retry that is expected; when nothing else is left they go too, because memory is then truly short.  What is
    *pinned* stays: a sequence that was preempted goes on with it.

    Args:
        budget: bytes of block data; 0 keeps nothing.
        owner: the one task that may change this.
    """

    def __init__(self, budget: int, owner: TaskOwner) -> None:
        self.budget = budget
        self._owner = owner
        self._blocks: OrderedDict[BlockKey, Block] = OrderedDict()  # least recently used first
        self._children: Counter[BlockKey] = Counter()
        self._held_until: dict[BlockKey, float] = {}
        self._pins: Counter[BlockKey] = Counter()  # of blocks that are here, or are yet to come
        self._bytes = 0
        self._evictions = 0
        self._refused = b""  # the last block for which there was no room
        self._told: HeldBlocks | None = None

    def tell(self, held: HeldBlocks | None) -> None:
        """Have it noted there from now on which blocks there are, as there are now; None for no more."""
        self._told = held
        if held is not None:
            for block in self._blocks.values():
                held.ram_holds(block)

    def __contains__(self, key: BlockKey) -> bool:
        """Return whether the block is here."""
        return key in self._blocks

    def __len__(self) -> int:
        """Return how many blocks there are."""
        return len(self._blocks)

    def __iter__(self) -> Iterator[BlockKey]:
        """Yield the blocks' keys, the least recently used first."""
        return iter(self._blocks)

    def get(self, key: BlockKey) -> Block | None:
        """Return the block, if it is here; it may be used even after it was evicted."""
        return self._blocks.get(key)

    def insert(self, block: Block, now: float = 0.0) -> bool:
        """Keep a block, if room can be made for it; `now` decides which holds have run out.

        Of a chain that is longer than the budget, the start is kept.  A whole block takes the place of one that is not.
        """
        self._owner.check()
        before = self._blocks.get(block.key)
        if before is not None:
            self._blocks.move_to_end(block.key)
            if before.whole or not block.whole:
                return True
        more = block.nbytes - (0 if before is None else before.nbytes)
        # The parent is in use by this very insertion: evicting it would make the child unreachable.
        if not self._make_space(more, keep=(block.parent, block.key), now=now):
            if before is None:
                self._refused = block.key
            return before is not None
        self._blocks[block.key] = block
        self._children[block.parent] += before is None
        self._bytes += more
        if self._told is not None:
            self._told.ram_holds(block)
        if block.key == self._refused:
            self._refused = b""
        return True

    def touch(self, chain: Sequence[BlockKey]) -> None:
        """Note that a chain, parents first, was used; its parents end up more recent than their children."""
        self._owner.check()
        for key in reversed(chain):
            if key in self._blocks:
                self._blocks.move_to_end(key)

    def keep_until(self, keys: Iterable[BlockKey], until: float) -> None:
        """Let these blocks go last until the time `until`, by the clock of `insert`."""
        self._owner.check()
        for key in keys:
            if key in self._blocks:
                self._held_until[key] = max(until, self._held_until.get(key, until))

    def pin(self, keys: Iterable[BlockKey]) -> None:
        """Never let these blocks go for others, those that are yet to come included, until `unpin`."""
        self._owner.check()
        self._pins.update(keys)

    def unpin(self, keys: Iterable[BlockKey]) -> None:
        """Let these blocks go as others do."""
        self._owner.check()
        for key in keys:
            self._pins[key] -= 1
            if not self._pins[key]:
                del self._pins[key]

    @property
    def pinned(self) -> int:
        """Return how many blocks are pinned."""
        return len(self._pins)

    def is_pinned(self, key: BlockKey) -> bool:
        """Return whether a block is."""
        return key in self._pins

    def drop(self, key: BlockKey) -> None:
        """Forget a block at once."""
        self._owner.check()
        block = self._blocks.pop(key, None)
        if block is None:
            return
        self._held_until.pop(key, None)
        self._bytes -= block.nbytes
        self._children[block.parent] -= 1
        if not self._children[block.parent]:
            del self._children[block.parent]
        if self._told is not None:
            self._told.ram_lost(key)

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block."""
        return {key: block.parent for key, block in self._blocks.items()}

    def statistics(self) -> RamTierStatistics:
        """Return a frozen snapshot."""
        return RamTierStatistics(len(self._blocks), self._bytes, self.budget, self._evictions)

    def check_integrity(self) -> None:
        """Raise AssertionError if the sums are wrong."""
        assert self._bytes == sum(block.nbytes for block in self._blocks.values())
        assert self._bytes <= self.budget
        assert +self._children == Counter(block.parent for block in self._blocks.values())
        assert self._held_until.keys() <= self._blocks.keys()
        assert all(count > 0 for count in self._pins.values())
        assert all(key == block.key for key, block in self._blocks.items())

    def _make_space(self, wanted: int, keep: tuple[BlockKey, BlockKey], now: float) -> bool:
        if wanted > self.budget:
            return False
        while self._bytes + wanted > self.budget:
            victim = self._victim(keep, now) if keep[0] != self._refused else None
            if victim is None:
                return False
            self.drop(victim)
            self._evictions += 1
        return True

    def _victim(self, keep: tuple[BlockKey, BlockKey], now: float) -> BlockKey | None:
        """Return the least recently used block without children; a held one only if there is no other."""
        held = None
        for key in self._blocks:
            if key in keep or key in self._children or key in self._pins:
                continue
            if self._held_until.get(key, 0.0) <= now:
                return key
            held = held or key
        return held
