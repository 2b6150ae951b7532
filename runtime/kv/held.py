"""Registry of the blocks that are held anywhere, in slots or in tiers; a listener is told as they come and go.

A listener is told of a block when it can be reached: it is held, and so are all before it in its sequence.  So what was
told is a tree from the model's root at every moment, and a block without its parent, which nobody could use, is in none
of it.  Blocks of owners who share no KV hang from roots of their own, so nobody is told of them.

*Private* is what was computed for a request that wanted no reuse.  It is told of only once some other request has it in
its slot.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.token_chain import TokenChain


class BlockListener(Protocol):
    """Listener to blocks, told in the moment in which they come or go; it may not raise, and waits for nothing."""

    def stored(self, parent: BlockKey, keys: Sequence[BlockKey], token_ids: Sequence[int]) -> None:
        """Blocks can be reached from now on.

        Args:
            parent: the key before the first of them; the model's root where they are a sequence's first.
            keys: each the next one's parent.
            token_ids: of all, `BLOCK_TOKENS` for each.
        """

    def removed(self, keys: Sequence[BlockKey]) -> None:
        """Blocks cannot be reached any more; children come before their parents."""


@dataclass(slots=True, eq=False)
class _Held:
    """One block.

    Attributes:
        parent: the key of the block before it.
        token_ids: its own.
        places: that hold it: each slot that does, the memory, and the disk.
        is_public: not private in some place, now or earlier.
        is_told: the listener knows it.
    """

    parent: BlockKey
    token_ids: tuple[int, ...]
    places: int = 0
    is_public: bool = False
    is_told: bool = False


class HeldBlocks:
    """Keeps count of the places of each block.  Plain data, not locked: all calls are made on the event loop's thread.

    Args:
        root: the parent of a sequence's first block.
        listener: is told.
    """

    def __init__(self, root: BlockKey, listener: BlockListener) -> None:
        self._root = root
        self._listener = listener
        self._held: dict[BlockKey, _Held] = {}
        self._children: dict[BlockKey, dict[BlockKey, None]] = {}
        self._slots: dict[int, list[BlockKey]] = {}
        self._private: set[int] = set()  # slots
        self._ram: set[BlockKey] = set()
        self._disk: set[BlockKey] = set()

    # --- places -------------------------------------------------------------------------------------------------------

    def slot_holds(self, slot: int, chain: TokenChain, *, private: bool = False) -> None:
        """Note what a slot holds from now on; what that costs depends on what has changed alone."""
        before, now = self._slots.setdefault(slot, []), chain.keys
        shared = _shared(before, now)
        gone = before[shared:]
        del before[shared:]
        self._take_places(reversed(gone))
        if private:
            self._private.add(slot)
        elif slot in self._private:
            self._private.remove(slot)
            self._publish(before)
        fresh = now[shared:]
        before += fresh
        for number, key in enumerate(fresh, start=shared):
            start = number * BLOCK_TOKENS
            self._add_place(key, chain.parent(number), tuple(chain[start : start + BLOCK_TOKENS]), private=private)
        self._tell_of(fresh)

    def ram_holds(self, block: Block) -> None:
        """Note that the memory holds a block."""
        self._tier_holds(self._ram, block)

    def disk_holds(self, block: Block) -> None:
        """Note that the disk holds a block, or is to write it."""
        self._tier_holds(self._disk, block)

    def ram_lost(self, key: BlockKey) -> None:
        """Note that a block has left the memory."""
        self._tier_lost(self._ram, [key])

    def disk_lost(self, keys: Iterable[BlockKey]) -> None:
        """Note that blocks have left the disk."""
        self._tier_lost(self._disk, keys)

    def _tier_holds(self, tier: set[BlockKey], block: Block) -> None:
        if len(block.token_ids) < BLOCK_TOKENS:
            return  # a preempted sequence's last tokens, which serve nobody else
        if block.key not in tier:
            tier.add(block.key)
            self._add_place(block.key, block.parent, block.token_ids, private=block.private)
        elif not block.private:
            self._held[block.key].is_public = True  # another request's copy has taken the private one's place
        self._tell_of([block.key])

    def _tier_lost(self, tier: set[BlockKey], keys: Iterable[BlockKey]) -> None:
        gone = [key for key in keys if key in tier]
        tier.difference_update(gone)
        self._take_places(gone)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _add_place(self, key: BlockKey, parent: BlockKey, token_ids: tuple[int, ...], *, private: bool) -> None:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(parent, token_ids)
            self._children.setdefault(parent, {})[key] = None
        held.places += 1
        held.is_public = held.is_public or not private

    def _publish(self, keys: Sequence[BlockKey]) -> None:
        """Note that these are no longer private."""
        for key in keys:
            self._held[key].is_public = True
        self._tell_of(keys)

    def _take_places(self, keys: Iterable[BlockKey]) -> None:
        """Note that each of these is held in one place less, and tell what cannot be reached any more."""
        removed: list[BlockKey] = []
        for key in keys:
            held = self._held[key]
            held.places -= 1
            if held.places:
                continue
            removed += self._hide(key)
            del self._held[key]
            siblings = self._children[held.parent]
            del siblings[key]
            if not siblings:
                del self._children[held.parent]
        if removed:
            self._listener.removed(removed)

    # --- what is told -------------------------------------------------------------------------------------------------

    def _tell_of(self, keys: Sequence[BlockKey]) -> None:
        """Tell of those that can be reached now, and of what can be reached through them."""
        run: list[BlockKey] = []
        branches = deque(keys)
        while branches:
            key = branches.popleft()
            if not self._can_be_told(key):
                continue
            held = self._held[key]
            held.is_told = True
            if run and held.parent != run[-1]:
                self._tell_run(run)
                run = []
            run.append(key)
            branches.extendleft(self._children.get(key, ()))
        if run:
            self._tell_run(run)

    def _can_be_told(self, key: BlockKey) -> bool:
        held = self._held[key]
        if held.is_told or not held.is_public:
            return False
        parent = self._held.get(held.parent)
        return held.parent == self._root if parent is None else parent.is_told

    def _tell_run(self, run: list[BlockKey]) -> None:
        token_ids = [token for key in run for token in self._held[key].token_ids]
        self._listener.stored(self._held[run[0]].parent, tuple(run), token_ids)

    def _hide(self, key: BlockKey) -> list[BlockKey]:
        """Take back a block and all that was reached through it; returns what the listener knew, children first."""
        hidden: list[BlockKey] = []
        branches = [key]
        while branches:
            one = branches.pop()
            if self._held[one].is_told:
                self._held[one].is_told = False
                hidden.append(one)
                branches.extend(self._children.get(one, ()))
        return hidden[::-1]

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def told(self) -> set[BlockKey]:
        """Blocks that the listener knows to be there."""
        return {key for key, held in self._held.items() if held.is_told}

    def check_integrity(self) -> None:
        """Raise AssertionError if the counts are wrong."""
        for key, held in self._held.items():
            in_slots = sum(key in keys for keys in self._slots.values())
            assert held.places == in_slots + (key in self._ram) + (key in self._disk) > 0, (key, held)
            assert held.is_told == (held.is_public and self._is_reached(held.parent)), (key, held)
        assert {key for keys in self._children.values() for key in keys} == self._held.keys()

    def _is_reached(self, parent: BlockKey) -> bool:
        return parent == self._root if parent not in self._held else self._held[parent].is_told


def _shared(before: Sequence[BlockKey], now: Sequence[BlockKey]) -> int:
    """Return how many first keys two chains share: a key names all before it, so a few are looked at."""
    low, high = 0, min(len(before), len(now))
    if high and before[high - 1] == now[high - 1]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if before[middle - 1] == now[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
