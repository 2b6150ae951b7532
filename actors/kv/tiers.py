"""Registry of the blocks outside of the slots: in host memory, on disk, or in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.kv.disk_reader import DiskReader
from runtime.kv.blocks import BLOCK_TOKENS, state_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Sequence

    from actors.core.slot_views import Resident
    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.disk.tier import DiskTierStatistics
    from runtime.kv.held import HeldBlocks
    from runtime.kv.ram_tier import RamTier
    from runtime.kv.rings import Rings


class BlockStore(Protocol):
    """Interface of the disk tier, `runtime.kv.disk.tier.DiskTier`, where each method is described."""

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that `load` would find."""
        ...

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that `load` would find with the rows of all layers."""
        ...

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block."""
        ...

    def put_nowait(self, block: Block) -> bool:
        """Hand in a block to be written; False if it was refused."""
        ...

    def take_refused(self) -> list[BlockKey]:
        """Return the blocks that were taken and could not be written."""
        ...

    def load(self, key: BlockKey) -> Block | None:
        """Read a block, in a worker thread."""
        ...

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Take out blocks for good."""
        ...

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note that a chain of blocks was used."""
        ...

    def watch_losses(self, wake: Callable[[], object] | None) -> None:
        """Have `wake` called, in any thread, when a block may be gone; None for no more."""
        ...

    def take_lost(self) -> list[BlockKey]:
        """Return the blocks that are gone since the last call, and perhaps others."""
        ...

    def statistics(self) -> DiskTierStatistics:
        """Return a frozen snapshot."""
        ...


class Tiers:
    """The blocks of both tiers, by key.

    Attributes:
        ram: the tier in host memory.
        disk: the tier on disk, or None.
        reader: reads from it, for whoever may wait; None where there is no disk.

    Args:
        owner: of the tiers.
        rings: of the model, whose blocks may then be without the rows of some layers.
        has_states: the model has recurrent layers, so that a prompt goes on only where there is a state.
    """

    def __init__(
        self,
        ram: RamTier,
        disk: BlockStore | None,
        owner: TaskOwner,
        rings: Rings | None = None,
        *,
        has_states: bool = False,
    ) -> None:
        self.ram = ram
        self.disk = disk
        self.has_states = has_states
        self._rings = rings
        self.reader = None if disk is None else DiskReader(disk.load)
        self._owner = owner
        self._told: HeldBlocks | None = None

    @property
    def keep_anything(self) -> bool:
        """Return whether there is any tier with room for blocks."""
        return self.ram.budget > 0 or self.disk is not None

    def __contains__(self, key: BlockKey) -> bool:
        """Return whether some tier holds the block, also a disk that does not answer now."""
        return key in self.ram or (self.disk is not None and bool(self.disk.held([key])))

    def reach(self, keys: Sequence[BlockKey], first: int) -> int:
        """Return the index after the last of the consecutive blocks from `first` on that can be had now.

        Where layers have rings, those that a sequence sees when it goes on after the last must be whole, from `first`
        on: what lies before is in the slot.  Where layers are recurrent, the state behind the last must be there.
        """
        if self._rings is not None:
            return self._reach_with_rings(self._rings, keys, first)
        reached = self._reach_of_blocks(keys, first)
        return self.last_state(keys, first, reached) if self.has_states else reached

    def last_state(self, keys: Sequence[BlockKey], first: int, end: int) -> int:
        """Return the index after the last of the blocks `first` to `end` behind which a state can be had; else `first`.

        Where layers are not recurrent, nobody asks.
        """
        return next((last for last in range(end, first, -1) if self.can_be_had(state_key(keys[last - 1]))), first)

    def _reach_of_blocks(self, keys: Sequence[BlockKey], first: int) -> int:
        on_disk: set[BlockKey] | None = None
        for last in range(first, len(keys)):
            if keys[last] not in self.ram:
                on_disk = self._on_disk(keys[last:]) if on_disk is None else on_disk
                if keys[last] not in on_disk:
                    return last
        return max(first, len(keys))

    def _reach_with_rings(self, rings: Rings, keys: Sequence[BlockKey], first: int) -> int:
        assert not self.has_states, "rings, and recurrent layers"
        available, whole = self.available(keys[first:]), self.whole(keys[first:])
        last, whole_from = first, first  # all blocks from `whole_from` to the current one are whole
        for end in range(first + 1, len(keys) + 1):
            if rings.has_full_layers and keys[end - 1] not in available:
                break
            if keys[end - 1] not in whole:
                whole_from = end
            elif whole_from <= max(first, rings.first_needed(end * BLOCK_TOKENS) // BLOCK_TOKENS):
                last = end
        return last

    def available(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that can be had now."""
        return {key for key in keys if key in self.ram} | self._on_disk(keys)

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that can be had now with the rows of all layers."""
        in_memory = {key for key in keys if (block := self.ram.get(key)) is not None and block.whole}
        return in_memory | (self.disk.whole(keys) if self._asks_disk() and self.disk is not None else set())

    def can_be_had(self, key: BlockKey, *, whole: bool = False) -> bool:
        """Return whether a block can be had now; or, if `whole`, with the rows of all layers."""
        if whole and self._rings is not None:
            return bool(self.whole([key]))
        return key in self.ram or key in self._on_disk([key])

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block that some tier holds."""
        return self.ram.parents() | ({} if self.disk is None else self.disk.parents())

    def missing(self, resident: Resident, first: int) -> list[int]:
        """Return the numbers of the blocks from the `first` on that are to be kept.

        Not those on trial: some tier gave them, and if it has one no more, that was invalidated, or is let go.  One
        that a tier has in part is to be kept if it is whole here.
        """
        if not self.keep_anything:
            return []
        keys = resident.tokens.keys
        known = self.available(keys[first:]) | resident.trial
        if self._rings is None:
            return [i for i in range(first, len(keys)) if keys[i] not in known]
        whole, bodies = self.whole(keys[first:]) | resident.trial, self._rings.has_full_layers
        return [
            i
            for i in range(first, len(keys))
            if keys[i] not in (whole if resident.has_windows(i) else known) and (bodies or resident.has_windows(i))
        ]

    def missing_states(self, resident: Resident, usable: int) -> list[int]:
        """Return the lengths beyond `usable` of the states that are to be kept: some of those behind blocks.

        Those near the end come first, and are the nearer to one another: most prompts that go on from a sequence leave
        it there, and a state may be as large as many blocks.
        """
        if not self.keep_anything:
            return []
        keys, end = resident.tokens.keys, len(resident.tokens)
        names: dict[BlockKey, int] = {}
        limit = end
        for length in sorted(resident.states, reverse=True):
            if length % BLOCK_TOKENS == 0 and usable < length <= limit:
                names[state_key(keys[length // BLOCK_TOKENS - 1])] = length
                limit = length - max(BLOCK_TOKENS, end - length)
        known = self.available(names) | resident.trial
        return [length for name, length in names.items() if name not in known]

    def touch(self, chain: Sequence[BlockKey]) -> None:
        """Note that a chain of blocks, parents first, was used."""
        self._owner.check()
        self.ram.touch(chain)
        if self.disk is not None:
            self.disk.touch(chain)

    def hand_in(self, block: Block) -> bool:
        """Hand a block to the disk, which there has to be; False if it was refused for now."""
        self._owner.check()
        assert self.disk is not None
        taken = self.disk.put_nowait(block)
        if taken and self._told is not None:
            self._told.disk_holds(block)
        return taken

    def drop(self, keys: Collection[BlockKey]) -> int:
        """Take these blocks out of both tiers at once; returns how many there were."""
        self._owner.check()
        on_disk = set() if self.disk is None else self.disk.held(keys)
        dropped = {key for key in keys if key in self.ram} | on_disk
        for key in dropped:
            self.ram.drop(key)
        if self.disk is not None:
            self.disk.drop(on_disk)
            if self._told is not None:
                self._told.disk_lost(on_disk)
        return len(dropped)

    # --- who is told of blocks: by any task, for no block is changed --------------------------------------------------

    def tell(self, held: HeldBlocks | None, wake: Callable[[], object] = lambda: None) -> None:
        """Have it noted there from now on what both tiers hold; None for no more.

        What the disk holds from before is known by its keys alone, and noted as far as the memory has it, too.

        Args:
            held: where.
            wake: called in any thread when `settle_losses` is to be called.
        """
        self._told = held
        self.ram.tell(held)
        if self.disk is not None:
            self.disk.watch_losses(None if held is None else wake)
            in_memory = {key: block for key in self.ram if (block := self.ram.get(key)) is not None}
            self.note_read(in_memory.values(), in_memory)

    def note_read(self, blocks: Iterable[Block], from_disk: Container[BlockKey]) -> None:
        """Note that the disk holds those of these blocks that were read from it, unless it has lost them meanwhile."""
        if self._told is None or self.disk is None:
            return
        read = {block.key: block for block in blocks if block.key in from_disk}
        for key in self.disk.held(read):
            self._told.disk_holds(read[key])

    def settle_losses(self) -> None:
        """Note what the disk has lost by itself."""
        if self._told is None or self.disk is None:
            return
        lost = self.disk.take_lost()
        self._told.disk_lost(set(lost) - self.disk.held(lost))

    def _on_disk(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those that the disk holds; none while it does not answer, though it may hold them all the same."""
        return self.disk.held(keys) if self._asks_disk() and self.disk is not None else set()

    def _asks_disk(self) -> bool:
        return self.reader is not None and self.reader.answers()
