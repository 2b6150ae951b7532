"""Blocks that are to be kept and are still in their slot, each with what it stands on.

A slot's own record of that ends when it is granted to a prompt that shares nothing with what it holds; what that
displaced may wait through several such grants.  So provenance goes with each block, until a tier has it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from runtime.kv.blocks import BLOCK_TOKENS, state_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set

    from actors.core.slot_views import Resident
    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import BlockKey
    from runtime.kv.token_chain import TokenChain


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SlotBlock:
    """A block whose KV is in a slot, from position `start` on: complete, or the last tokens of a preempted sequence.

    Or it is a state in a `buffer` that the slot's record names, behind `start` tokens.
    `stands_on` has the names of all blocks that this KV came from, or may have been computed after; `whole` says that
    the layers with rings still have its rows, too, and `private` that a request wanted it that wanted no reuse.
    """

    key: BlockKey
    parent: BlockKey
    start: int
    token_ids: tuple[int, ...]
    stands_on: frozenset[BlockKey] = field(default=frozenset(), compare=False)
    whole: bool = field(default=True, compare=False)
    private: bool = field(default=False, compare=False)
    buffer: int | None = None

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.token_ids)


@dataclass(slots=True)
class _Batch:
    """Blocks of what a slot held at one time, by their numbers; the last may be a preempted sequence's `tail`.

    After them come states, by the `lengths` of the sequence.
    """

    resident: Resident
    numbers: deque[int]
    tail: BlockKey | None = None
    lengths: deque[int] = field(default_factory=deque)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self.numbers) + len(self.lengths)

    def key(self, number: int) -> BlockKey:
        """Return a block's name."""
        keys = self.resident.tokens.keys
        if number < len(keys):
            return keys[number]
        assert self.tail is not None, "this block is not complete"
        return self.tail

    @property
    def end(self) -> int:
        """The position behind the last of them."""
        return min((max(self.numbers, default=-1) + 1) * BLOCK_TOKENS, len(self.resident.tokens))

    def block(self, number: int) -> SlotBlock:
        """Make a block, when it is wanted: a long sequence has thousands."""
        chain, start = self.resident.tokens, number * BLOCK_TOKENS
        tokens = tuple(chain[start : start + BLOCK_TOKENS])
        whole, private = self.resident.has_windows(number), self.resident.private
        return SlotBlock(self.key(number), chain.parent(number), start, tokens, self.resident.stands_on, whole, private)

    def state_key(self, length: int) -> BlockKey:
        """Return a state's name: that of the block before it says it all."""
        return state_key(self.key((length - 1) // BLOCK_TOKENS))

    def state(self, length: int) -> SlotBlock:
        """Make a state's block."""
        resident, parent = self.resident, self.key((length - 1) // BLOCK_TOKENS)
        private, buffer = resident.private, resident.states[length]
        return SlotBlock(state_key(parent), parent, length, (), resident.stands_on, private=private, buffer=buffer)

    def pop(self) -> SlotBlock:
        """Take out the next."""
        return self.block(self.numbers.popleft()) if self.numbers else self.state(self.lengths.popleft())

    def keep_only(self, numbers: Iterable[int]) -> None:
        """Let the other blocks wait no more."""
        self.numbers = deque(numbers)


class WaitingBlocks:
    """The blocks by slot, in the order in which they are to be copied out of it.

    What a slot is said to hold may not change while blocks of that wait.

    Args:
        owner: the one task that may change this.
    """

    def __init__(self, owner: TaskOwner) -> None:
        self._owner = owner
        self._batches: dict[int, list[_Batch]] = {}
        self._held_until: dict[int, float] = {}
        self._taken: list[tuple[int, SlotBlock]] = []  # the last to be taken: they may be on their way out of the slot

    def __len__(self) -> int:
        """Return how many blocks wait."""
        return sum(map(len, self._all()))

    def of(self, slot: int) -> Iterator[SlotBlock]:
        """Yield the blocks that wait in one slot."""
        for batch in self._batches.get(slot, ()):
            yield from map(batch.block, batch.numbers)
            yield from map(batch.state, batch.lengths)

    def any_of(self, slot: int) -> bool:
        """Return whether any block waits in that slot."""
        return any(map(len, self._batches.get(slot, ())))

    def end(self, slot: int) -> int:
        """Return the position behind the last block that waits in that slot; 0 if none does."""
        return max((batch.end for batch in self._batches.get(slot, ())), default=0)

    def any_displaced(self, slot: int, chain: TokenChain, have: int, *, unless: Callable[[BlockKey], bool]) -> bool:
        """Return whether a block of a chain is to be copied out of that slot, or is being copied.

        The slot's own tokens are the chain's up to position `have` only; what `unless` is true of is kept already.
        """
        for batch in self._batches.get(slot, ()):
            shared, length = batch.resident.tokens.shared_with(chain), len(batch.resident.tokens)
            for number in batch.numbers:
                if have < min((number + 1) * BLOCK_TOKENS, length) <= shared and not unless(batch.key(number)):
                    return True
            for one in batch.lengths:
                if have < one <= shared and not unless(batch.state_key(one)):
                    return True
        taken = [block for other, block in self._taken if other == slot and block.end > have]
        return any(
            chain[b.start : b.start + len(b.token_ids)] == list(b.token_ids) and not unless(b.key) for b in taken
        )

    def held_until(self, slot: int) -> float:
        """Return the time, by the event loop's clock, until which what is kept of a slot is not to be let go."""
        return self._held_until.get(slot, 0.0)

    def put(
        self,
        slot: int,
        resident: Resident,
        numbers: Iterable[int],
        held_until: float = 0.0,
        tail: BlockKey | None = None,
        lengths: Iterable[int] = (),
    ) -> None:
        """Let these blocks wait, in place of the slot's others, and what is kept of them be held until then.

        One number more than the complete blocks have is that of its last tokens, whose name is `tail`.  So do the
        states of these lengths.
        """
        self._owner.check()
        self._batches[slot] = [_Batch(resident, deque(numbers), tail, deque(lengths))]
        self._held_until[slot] = held_until

    def add(
        self, slot: int, resident: Resident, numbers: Iterable[int], *, first: int, lengths: Iterable[int] = ()
    ) -> None:
        """Let these blocks wait behind the slot's others, of which those before the `first` wait no more.

        So do the states of these lengths.
        """
        self._owner.check()
        batches = self._batches[slot] = [batch for batch in self._batches.get(slot, ()) if len(batch)]
        known: set[BlockKey] = set()
        for batch in batches:
            batch.keep_only(number for number in batch.numbers if number >= first)
            known.update(map(batch.key, batch.numbers))
        keys = resident.tokens.keys
        fresh = deque(number for number in numbers if keys[number] not in known)
        batches.append(_Batch(resident, fresh, lengths=deque(lengths)))

    def exchange(self, slot: int, other: int) -> None:
        """Let what waits in two slots wait in the other one: what they hold was exchanged."""
        self._owner.check()
        _exchange(self._batches, slot, other)
        _exchange(self._held_until, slot, other)
        names = {slot: other, other: slot}
        self._taken = [(names.get(one, one), block) for one, block in self._taken]

    def take(
        self, slots: Iterable[int], limit: int, *, unless: Callable[[int, SlotBlock], bool]
    ) -> list[tuple[int, SlotBlock]]:
        """Take up to `limit`, from these slots in this order, to be copied; what `unless` is true of is let go.

        A state is the last of them: it may be as large as many blocks.
        """
        self._owner.check()
        taken: list[tuple[int, SlotBlock]] = []
        for slot in slots:
            for batch in self._batches.get(slot, ()):
                while len(batch) and len(taken) < limit:
                    block = batch.pop()
                    if not unless(slot, block):
                        taken.append((slot, block))
                        limit = limit if block.buffer is None else len(taken)
        self._taken = list(taken)
        return taken

    def taken_from(self, block: SlotBlock) -> int | None:
        """Return where that is now from which a block was taken last; None if the block is wanted no more."""
        return next((slot for slot, one in self._taken if one is block), None)

    def forget(self, slot: int) -> None:
        """Let nothing of a slot wait any more: it was invalidated."""
        self._owner.check()
        self._batches.pop(slot, None)
        self._taken = [(other, block) for other, block in self._taken if other != slot]

    def forget_restored(self, keys: Set[BlockKey]) -> None:
        """Let these blocks wait no more where they are as some tier gave them; computed anew they are others."""
        self._owner.check()
        for batch in self._all():
            invalidated = batch.resident.stands_on & keys
            if invalidated:
                batch.keep_only([number for number in batch.numbers if batch.key(number) not in invalidated])
                batch.lengths = deque(one for one in batch.lengths if batch.state_key(one) not in invalidated)
        self._taken = [(slot, one) for slot, one in self._taken if one.key not in one.stands_on & keys]

    def forget_what_stands_on(self, keys: Set[BlockKey]) -> None:
        """Let nothing wait, in any slot, that came from these blocks or may have been computed after them."""
        self._owner.check()
        for batch in self._all():
            if not batch.resident.stands_on.isdisjoint(keys):
                batch.numbers.clear()
                batch.lengths.clear()
        self._taken = [(slot, one) for slot, one in self._taken if one.stands_on.isdisjoint(keys)]

    def _all(self) -> Iterator[_Batch]:
        for batches in self._batches.values():
            yield from batches


def _exchange(values: dict[int, T], one: int, other: int) -> None:
    mine, theirs = values.pop(one, None), values.pop(other, None)
    if theirs is not None:
        values[one] = theirs
    if mine is not None:
        values[other] = mine
