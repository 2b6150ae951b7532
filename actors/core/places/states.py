"""States of the slots' sequences: which lengths have one, and which buffers a step is to write."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from actors.core.places.record import SlotRecord
    from actors.core.places.state_pool import StatePool
    from actors.core.slot_views import SlotView
    from runtime.step.step import Segment


@dataclass(frozen=True, slots=True)
class StateStatistics:
    """The buffers for states of recurrent layers.

    Attributes:
        buffers: how many there are.
        named: of them, those that have a state which somebody may go on from.
        snapshots: states that no running sequence goes on from, by the sequences that have them.
        evicted: snapshots that made way, since the start.
    """

    buffers: int
    named: int
    snapshots: int
    evicted: int


class States:
    """Part of the slot table of a model with recurrent layers: changed by its owner.

    What a step may write are free buffers, and it is given them without a name: there is one step at a time, nobody
    else is given any, and its end names what is to be kept.  So nothing has to be given back, however a step ends.

    What has a name besides the states that running sequences go on from are *snapshots*: they make way when buffers are
    short, first those whose loss costs least to compute again.

    Args:
        pool: of the buffers.
        records: of the slots, and then of the retained places.
        changing: returns a slot's record if it may be changed now, and raises if not.
        grants: returns how many slots were granted so far.
        of_round: how many states a sequence may leave in a verification of drafts.
    """

    def __init__(
        self,
        pool: StatePool,
        records: Sequence[SlotRecord],
        changing: Callable[[SlotView], SlotRecord],
        grants: Callable[[], int],
        of_round: int,
    ) -> None:
        self.of_round = of_round
        self._pool = pool
        self._records = records
        self._changing = changing
        self._grants = grants
        self._lent = 0
        self._evicted = 0

    def begin(self) -> None:
        """Take back all that the last step or transfer was lent and that nobody has named since."""
        self._lent = 0

    def lend(self, segment: Segment, ends: Collection[int], spares: int, now: float) -> Segment:
        """Return a segment of the step that is planned with the buffer that it goes on from, and those that it writes.

        Args:
            segment: of a slot that is held.
            ends: numbers of its rows, behind which it leaves a state; all its rows is one of them.
            spares: buffers besides, for what may follow in a burst.
            now: on Trio's clock.
        """
        record = self._changing(self._records[segment.slot])
        record.pass_on()
        buffers = self.lend_buffers(len(ends) + spares, now)
        return replace(
            segment,
            state=record.states.get(segment.start),
            next_states=tuple(zip(sorted(ends), buffers, strict=False)),
            spare_states=tuple(buffers[len(ends) :]),
        )

    def lend_buffers(self, wanted: int, now: float) -> list[int]:
        """Return so many buffers that nobody names; snapshots make way for them."""
        while self._pool.num_free < self._lent + wanted:
            self._evict(now)
        buffers = list(islice(self._pool.free, self._lent, self._lent + wanted))
        self._lent += wanted
        return buffers

    def commit(self, slot: SlotView, states: Mapping[int, int], *, passing: bool) -> None:
        """Name what a step has left, by the length of the sequence; see `SlotRecord.put_states`."""
        self._changing(slot).put_states(states, passing=passing)

    def forget_displaced(self, place: SlotView) -> None:
        """Drop the names of states of what was there before: none of them waits to be copied out any more."""
        self._changing(place).forget_displaced([*place.displaced])

    def _evict(self, now: float) -> None:
        """Drop the name of the snapshot whose loss costs least: the tokens that somebody may have to compute again.

        These weigh less the longer nobody wanted the sequence, as in `resident_value`.  The end of one that is held for
        somebody, or is being copied out, goes last: whoever comes back goes on from there.
        """
        grants = self._grants()
        lengths = {record.id: sorted({*record.states, *record.displaced.values()}) for record in self._records}

        def cost(snapshot: tuple[SlotRecord, int, int]) -> tuple[bool, bool, float, int]:
            record, length, buffer = snapshot
            is_lent = record.owner is None
            is_held = is_lent and record.held_until > now
            is_end = length == lengths[record.id][-1]
            idle = grants - record.last_used if is_lent else 0
            loss = expected_loss(lengths[record.id], length)
            return is_end and (is_held or buffer in record.displaced), is_held, loss / (1 + idle), record.last_used

        record, length, buffer = min(self._snapshots(), key=cost)
        record.evict(length, buffer)
        self._evicted += 1

    def _snapshots(self) -> Iterator[tuple[SlotRecord, int, int]]:
        """Yield the states that no running sequence goes on from: places, lengths and buffers."""
        for record in self._records:
            for snapshot in record.snapshots():
                yield record, *snapshot

    def statistics(self) -> StateStatistics:
        """Return what there is now, and what was evicted since the start."""
        buffers = len(self._pool)
        snapshots = sum(1 for _ in self._snapshots())
        return StateStatistics(buffers, buffers - self._pool.num_free, snapshots, self._evicted)

    def check_integrity(self) -> None:
        """Raise AssertionError if a name is counted that nobody has, or a sequence has no state to go on from."""
        self._pool.check_integrity(
            buffer for record in self._records for buffer in (*record.states.values(), *record.displaced)
        )
        for record in self._records:
            length = len(record.tokens)
            assert all(0 < one <= length for one in record.states), f"slot {record.id}: {record.states} of {length}"
            assert record.owner is None or not length or length in record.states, f"slot {record.id} has no state"


def expected_loss(lengths: Sequence[int], length: int) -> float:
    """Return how many tokens the loss of a state is expected to cost, by those that the same sequence has.

    A prompt that goes on from here is one that leaves the sequence between this state and the next.  Most leave it near
    its end, where a thought is dropped or a message edited: how likely a place is, falls with its distance from there.
    So those that are kept lie the farther apart the farther they are from the end.

    Args:
        lengths: of all states of the sequence, in ascending order.
        length: of these, that of the one that would be lost.
    """
    place, end = lengths.index(length), lengths[-1]
    before = lengths[place - 1] if place else 0
    if length == end:
        return length - before
    following = lengths[place + 1]
    return (length - before) * math.log1p((following - length) / (end - following + 1))
