"""Blocks that are to be kept and are still in their slot, each with what it stands on.

A slot's own record of that ends when it is granted to a prompt that shares nothing with what it holds; what that
displaced may wait through several such grants.  So provenance goes with each block, until a tier has it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set

    from actors.slots import Resident
    from runtime.blocks import BlockKey


@dataclass(frozen=True, slots=True)
class SlotBlock:
    """A complete block whose KV is in a slot, at positions `start` to `start + BLOCK_TOKENS`.

    `stands_on` has the names of all blocks that this KV came from, or may have been computed after.
    """

    key: BlockKey
    parent: BlockKey
    start: int
    token_ids: tuple[int, ...]
    stands_on: frozenset[BlockKey] = field(default=frozenset(), compare=False)


def slot_blocks(resident: Resident, numbers: Iterable[int]) -> Iterator[SlotBlock]:
    """The complete blocks of what a slot holds, by their numbers."""
    chain = resident.tokens
    for number in numbers:
        start = number * BLOCK_TOKENS
        tokens = tuple(chain[start : start + BLOCK_TOKENS])
        yield SlotBlock(chain.keys[number], chain.parent(number), start, tokens, resident.stands_on)


class WaitingBlocks:
    """By slot, in the order in which they are to be copied out of it.  Owned by the prefix cache."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[SlotBlock]] = {}
        self._taken: list[tuple[int, SlotBlock]] = []  # the last to be taken: they may be on their way out of the slot

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def of(self, slot: int) -> Sequence[SlotBlock]:
        """Those of one slot; not to be changed."""
        return self._queues.get(slot, deque())

    def put(self, slot: int, blocks: Iterable[SlotBlock]) -> None:
        """Let these wait, in place of the slot's others."""
        self._queues[slot] = deque(blocks)

    def take(
        self, slots: Iterable[int], most: int, *, unless: Callable[[BlockKey], bool]
    ) -> list[tuple[int, SlotBlock]]:
        """Take up to `most`, from these slots in this order, to be copied; what `unless` is true of is let go."""
        taken: list[tuple[int, SlotBlock]] = []
        for slot in slots:
            queue = self._queues.get(slot, deque())
            while queue and len(taken) < most:
                block = queue.popleft()
                if not unless(block.key):
                    taken.append((slot, block))
        self._taken = list(taken)
        return taken

    def is_taken(self, slot: int, block: SlotBlock) -> bool:
        """Whether a block that was taken last is still wanted."""
        return any(slot == other and block is one for other, one in self._taken)

    def forget(self, slot: int) -> None:
        """Nothing of a slot is wanted any more."""
        self._queues.pop(slot, None)
        self._taken = [(other, block) for other, block in self._taken if other != slot]

    def forget_restored(self, keys: Set[BlockKey]) -> None:
        """These blocks are not wanted where they are as some tier gave them; computed anew they are others."""
        self._forget(lambda block: block.key in keys and block.key in block.stands_on)

    def forget_what_stands_on(self, keys: Set[BlockKey]) -> None:
        """Nothing is wanted that came from these blocks, or may have been computed after them, in whichever slot."""
        verdicts: dict[int, bool] = {}  # blocks that came to wait together share one set

        def is_wrong(block: SlotBlock) -> bool:
            if id(block.stands_on) not in verdicts:
                verdicts[id(block.stands_on)] = not block.stands_on.isdisjoint(keys)
            return verdicts[id(block.stands_on)]

        self._forget(is_wrong)

    def _forget(self, is_wrong: Callable[[SlotBlock], bool]) -> None:
        for slot, queue in self._queues.items():
            if any(map(is_wrong, queue)):
                self._queues[slot] = deque(block for block in queue if not is_wrong(block))
        self._taken = [(slot, block) for slot, block in self._taken if not is_wrong(block)]
