"""Extents of the slots' sequences in the arena of KV: they are given, grown, shrunk and moved.

The tokens that a sequence may come to need are *reserved*.  Sequences run only as long as the sum of their reservations
fits the arena, so that each can be given what is reserved for it, whatever the others take; what is not used yet is
lent to residents, the KV in free slots.

One sequence is moved at a time, in pieces between two steps.  Until the last of them it has its old place and the new
one, and nobody may read or write it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from runtime.step.transfer import Relocate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from actors.core.places.record import SlotRecord
    from actors.core.slot_views import SlotView
    from runtime.kv.arena import Arena, Relocation

MAX_ATTEMPTS = 3  # to move a piece
MAX_PIECES = 64  # in one turn, however small they are


@dataclass(frozen=True, slots=True)
class Moving:
    """A sequence on its way to another place.

    Attributes:
        slot: whose.
        source, target: the positions of the arena where it begins, before and afterwards.
        rows: positions to be copied.
        done: how many of them are; the first ones if it goes down, the last ones if it goes up.
        failures: of the piece that is next.
    """

    slot: int
    source: int
    target: int
    rows: int
    done: int = 0
    failures: int = 0

    def place(self, position: int) -> int:
        """Return where a position of the sequence lies now."""
        is_moved = position < self.done if self.target < self.source else position >= self.rows - self.done
        return (self.target if is_moved and position < self.rows else self.source) + position

    def pieces(self, limit: int) -> list[Relocate]:
        """Return what is to be copied next, up to `limit` rows.

        No piece overlaps the place that it is copied to, so that one which failed can be copied again.
        """
        longest, left, pieces = abs(self.target - self.source), min(limit, self.rows - self.done), list[Relocate]()
        done = self.done
        while left > 0 and len(pieces) < MAX_PIECES:
            rows = min(left, longest)
            first = done if self.target < self.source else self.rows - done - rows
            pieces.append(Relocate(self.slot, self.source + first, self.target + first, rows))
            done, left = done + rows, left - rows
        return pieces


@dataclass(slots=True)
class ExtentCounts:
    """Counts since the start.

    Attributes:
        grown: extents that grew in place.
        moves: sequences that were moved.
        moved_positions: that were copied for it.
        compactions: of the moves, those that made room for another sequence.
        given_up: residents that made room.
    """

    grown: int = 0
    moves: int = 0
    moved_positions: int = 0
    compactions: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class RetainedExtentStatus:
    """KV that lies in no slot, and needs no copying: of somebody who was preempted, or who was in that one's slot.

    Attributes:
        origin: the position of the KV arena where its sequence begins.
        capacity: how many positions it has there.
    """

    id: int
    tokens: int
    origin: int
    capacity: int


@dataclass(frozen=True, slots=True)
class ArenaStatistics:
    """The KV that all sequences share; where each lies, `/slots` and `shelves` say.

    Attributes:
        free: positions that no sequence has, idle slots' neither.
        largest_gap: of these, the most that lie together.
        promised: positions that those who run may come to need.
        extents: sequences that have a place, idle slots' included.
        shelves: those that lie in a retained extent; whoever needs their room has it.
        moving: the slot, or retained extent, whose sequence is being moved; None if none is.
        bytes, free_bytes: of the KV of all positions, and of the free ones; 0 where a position's is not known.
        grown: this and those below: since the start.  Sequences that grew in place.
        moves: sequences that were moved.
        moved_positions: positions that were copied for it.
        compactions: of the moves, those that made room for another sequence.
        given_up: what idle slots kept, and made room.
    """

    positions: int
    free: int
    largest_gap: int
    promised: int
    extents: int
    shelves: tuple[RetainedExtentStatus, ...]
    moving: int | None
    bytes: int
    free_bytes: int
    grown: int
    moves: int
    moved_positions: int
    compactions: int
    given_up: int


class Extents:
    """Part of the slot table: changed by its owner, and not while a step runs that names the slot.

    Attributes:
        counts: since the start; not to be changed.
        moving: the sequence that is on its way; None if none is.

    Args:
        arena: the allocator.
        records: of the slots, and then of the retained extents.
        slots: how many slots there are.
        changing: returns a slot's record if it may be changed now, and raises if not.
    """

    def __init__(
        self, arena: Arena, records: Sequence[SlotRecord], slots: int, changing: Callable[[SlotView], SlotRecord]
    ) -> None:
        self.counts = ExtentCounts()
        self.moving: Moving | None = None
        self._arena = arena
        self._records = records
        self._slots = slots
        self._changing = changing

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def positions(self) -> int:
        """Positions of the arena."""
        return self._arena.positions

    @property
    def free(self) -> int:
        """Positions that are in no extent."""
        return self._arena.free

    @property
    def reserved(self) -> int:
        """Positions that the sequences of held slots may come to need."""
        return sum(record.reserved for record in self._records if record.owner is not None)

    def statistics(self, position_bytes: int = 0) -> ArenaStatistics:
        """Return it as a frozen snapshot, of positions that take so many bytes each."""
        gaps = [gap.capacity for gap in self._arena.gaps()]
        free = sum(gaps)
        retained_extents = [retained for retained in self._records[self._slots :] if retained.capacity]
        return ArenaStatistics(
            positions=self.positions,
            free=free,
            largest_gap=max(gaps, default=0),
            promised=self.reserved,
            extents=sum(record.capacity > 0 for record in self._records),
            shelves=tuple(
                RetainedExtentStatus(one.id, len(one.tokens), one.origin, one.capacity) for one in retained_extents
            ),
            moving=None if self.moving is None else self.moving.slot,
            bytes=self.positions * position_bytes,
            free_bytes=free * position_bytes,
            **asdict(self.counts),
        )

    def reservation(self, positions: int) -> int:
        """Return what has to be there for a sequence that may come to have so many tokens."""
        return self._arena.rounded(positions)

    def grantable(self, reservations: Iterable[int], leaving: Collection[int] = ()) -> int:
        """Return how many of these, in order, could be granted a slot and kept their reservation.

        Args:
            reservations: in positions.
            leaving: slots that are held, and count as free.
        """
        staying = [record for record in self._records if record.owner is not None and record.id not in leaving]
        free, count = self._slots - len(staying), 0
        left = self.positions - sum(record.reserved for record in staying)
        for positions in reservations:
            left -= self.reservation(positions)
            if count == free or left < 0:
                break
            count += 1
        return count

    def is_relocating(self, slot: SlotView) -> bool:
        """Return whether a slot's sequence is on its way to another place."""
        return self.moving is not None and self.moving.slot == slot.id

    def place(self, slot: SlotView, position: int) -> int:
        """Return where a position of a slot's sequence lies in the arena, also while that is moved."""
        moving = self.moving
        return moving.place(position) if moving is not None and moving.slot == slot.id else slot.origin + position

    def check_integrity(self) -> None:
        """Raise AssertionError if a sequence has no place, or a place that is another's."""
        self._arena.check_integrity()
        for record in self._records:
            assert record.used <= record.capacity, f"slot {record.id}: {record.used} of {record.capacity} positions"
        assert self.reserved <= self.positions, f"{self.reserved} positions are reserved, of {self.positions}"

    # --- changes ------------------------------------------------------------------------------------------------------

    def give(self, slot: SlotView, least: int, wanted: int) -> bool:
        """Let a slot have at least so many positions, and as many as are wanted if they are there; False if not.

        They have to follow what it has; where it has nothing, they may be anywhere.
        """
        record = self._changing(slot)
        if not record.capacity:
            return self._arena.allocate(record.id, least, wanted)
        given = self._arena.grow(record.id, least, wanted)
        self.counts.grown += given
        return given

    def exchange(self, slot: SlotView, other: SlotView) -> None:
        """Let each of two have the other's place in the arena."""
        one, another = self._changing(slot), self._changing(other)
        assert not self.is_relocating(one), f"slot {one.id} is being moved"
        assert not self.is_relocating(another), f"slot {another.id} is being moved"
        self._arena.exchange(one.id, another.id)

    def drop(self, slot: SlotView) -> None:
        """Take back all that a slot has: nothing lies there."""
        record = self._changing(slot)
        assert not record.used, f"slot {slot.id} has {record.used} positions in use"
        assert not self.is_relocating(record), f"slot {slot.id} is being moved"
        self._arena.shrink(record.id, 0)

    def fit(self, slot: SlotView, least: int = 0) -> None:
        """Take back what a slot does not need for its tokens, its reservation, and so many positions besides."""
        record = self._changing(slot)
        if record.capacity and not self.is_relocating(record):
            reserved = 0 if record.owner is None else record.reserved
            self._arena.shrink(record.id, max(record.used, reserved, least))

    def plan_relocation(self, slot: SlotView, least: int, wanted: int, kept: Callable[[int], int]) -> Relocation | None:
        """Return the next move with which a slot gets at least so many positions; None if there is none.

        `kept` says of each slot up to which position it has something besides its tokens that may not be lost.
        """
        rows = {record.id: max(record.used, kept(record.id)) for record in self._records if record.capacity}
        return self._arena.plan_relocation(slot.id, least, wanted, rows)

    def begin_relocation(self, relocation: Relocation, kept: int, *, wanted_by: SlotView) -> None:
        """Begin to move a slot's sequence, with all up to position `kept`, so that another or itself has room."""
        record = self._changing(self._records[relocation.owner])
        assert self.moving is None, f"{relocation} begins, and {self.moving} goes on"
        self._arena.begin_relocation(relocation)
        self.moving = Moving(record.id, record.origin, relocation.target.first, max(record.used, kept))
        self.counts.moves += 1
        self.counts.compactions += wanted_by.id != record.id
        self._go_on(0)

    def pieces(self, limit: int) -> list[Relocate]:
        """Return what is to be copied next of the sequence that is on its way, up to `limit` rows."""
        return [] if self.moving is None else self.moving.pieces(limit)

    def note_relocated(self, piece: Relocate) -> None:
        """A piece was copied."""
        self._go_on(piece.rows)

    def note_failed(self) -> SlotView | None:
        """A piece could not be copied.  It is tried again; returns the slot if that was in vain, and the move is over.

        What the slot holds is then lost.
        """
        assert self.moving is not None, "a piece of no move"
        record = self._changing(self._records[self.moving.slot])
        self.moving = replace(self.moving, failures=self.moving.failures + 1)
        if self.moving.failures < MAX_ATTEMPTS:
            return None
        self._arena.abandon_relocation(record.id)
        self.moving = None
        return record

    def clear(self) -> None:
        """Let no slot have anything: the device was lost, and all KV with it."""
        for record in self._records:
            self._changing(record)
        self._arena.clear()
        self.moving = None

    def _go_on(self, rows: int) -> None:
        assert self.moving is not None, "a piece of no move"
        record = self._changing(self._records[self.moving.slot])
        self.counts.moved_positions += rows
        self.moving = replace(self.moving, done=self.moving.done + rows, failures=0)
        if self.moving.done >= self.moving.rows:
            self._arena.end_relocation(record.id)
            self.moving = None
