"""Pages of the slots' sequences in the pool of KV: they are given, shared, taken back, and copied on write.

The tokens that a sequence may come to need are *reserved*.  Sequences run only as long as what is *promised* to them
fits the pool, the pages that several have counted once, so that each can be given what is reserved for it, whatever the
others take; what is not used yet is lent to residents, the KV in free slots.

A page that several read is written by none of them.  What a slot shares begins with its sequence, and ends with a whole
page; so a slot has to do with that only where it was granted to a prompt that leaves what it holds inside of such a
page.  It gets a page of its own then, and the rows before are copied.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runtime.kv.pages import PAGE_TOKENS, PagePool, PageTable, pages_for
from runtime.step.transfer import CopyPage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from actors.core.places.record import SlotRecord
    from actors.core.slot_views import SlotView


@dataclass(slots=True)
class PageCounts:
    """Counts since the start.

    Attributes:
        shared_tokens: that sequences had of others without a copy.
        copied_pages: that were copied, since others read them.
        given_up: residents that were evicted for room.
    """

    shared_tokens: int = 0
    copied_pages: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class RetainedStatus:
    """KV that lies in no slot: of somebody who was preempted, or who was in that one's slot.

    Attributes:
        capacity: positions of its pages.
    """

    id: int
    tokens: int
    capacity: int


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """The KV that all sequences share, in positions; each is counted once.

    Attributes:
        free: that no sequence has, idle slots' neither.
        held: of those who run.
        resident: that idle slots alone have; whoever needs their room has it.
        shared: of the two, those that several sequences have.
        promised: that those who run may come to need.
        shelves: sequences that lie in no slot; whoever needs their room has it.
        bytes, free_bytes: of the KV of all positions, and of the free ones; 0 where a position's is not known.
        shared_tokens: this and those below: since the start.  Tokens that sequences had of others without a copy.
        copied_pages: pages that were copied, since others read them.
        given_up: what idle slots kept, and made room.
    """

    positions: int
    free: int
    held: int
    resident: int
    shared: int
    promised: int
    shelves: tuple[RetainedStatus, ...]
    bytes: int
    free_bytes: int
    shared_tokens: int
    copied_pages: int
    given_up: int


class SlotPages:
    """Part of the slot table: changed by its owner, and not while a step runs that names the slot.

    Attributes:
        counts: since the start; not to be changed.

    Args:
        positions: of the pool, in whole pages.
        records: of the slots, and then of the retained places.
        slots: how many slots there are.
        changing: returns a slot's record if it may be changed now, and raises if not.
    """

    def __init__(
        self, positions: int, records: Sequence[SlotRecord], slots: int, changing: Callable[[SlotView], SlotRecord]
    ) -> None:
        self.counts = PageCounts()
        self._pool = PagePool(pages_for(positions))
        self._records = records
        self._slots = slots
        self._changing = changing
        self._targets: list[int] = []  # pages that others are being copied to

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def positions(self) -> int:
        """Positions of the pool."""
        return self._pool.size * PAGE_TOKENS

    @property
    def free(self) -> int:
        """Positions that no sequence has."""
        return self._pool.free * PAGE_TOKENS

    @property
    def promised(self) -> int:
        """Positions that those who hold slots have or may come to need; what several have is counted once."""
        return self._promised([record for record in self._records if record.owner is not None])

    def readers(self, page: int) -> int:
        """Return how many sequences have a page."""
        return self._pool.readers(page)

    def statistics(self, position_bytes: int = 0) -> PoolStatistics:
        """Return it as a frozen snapshot, of positions that take so many bytes each."""
        retained = [one for one in self._records[self._slots :] if one.capacity]
        held = {page for record in self._records if record.owner is not None for page in record.pages.pages}
        return PoolStatistics(
            positions=self.positions,
            free=self.free,
            held=len(held) * PAGE_TOKENS,
            resident=(self._pool.size - self._pool.free - len(held)) * PAGE_TOKENS,
            shared=self._pool.shared * PAGE_TOKENS,
            promised=self.promised,
            shelves=tuple(RetainedStatus(one.id, len(one.tokens), one.capacity) for one in retained),
            bytes=self.positions * position_bytes,
            free_bytes=self.free * position_bytes,
            **asdict(self.counts),
        )

    def reservation(self, positions: int) -> int:
        """Return what has to be there for a sequence that may come to have so many tokens."""
        return pages_for(positions) * PAGE_TOKENS

    def grantable(self, reservations: Iterable[int], leaving: Collection[int] = ()) -> int:
        """Return how many of these, in order, could be granted a slot and kept their reservation.

        Args:
            reservations: in positions.
            leaving: slots that are held, and count as free.
        """
        staying = [record for record in self._records if record.owner is not None and record.id not in leaving]
        free, count = self._slots - len(staying), 0
        left = self.positions - self._promised(staying)
        for positions in reservations:
            left -= self.reservation(positions)
            if count == free or left < 0:
                break
            count += 1
        return count

    def _promised(self, records: Sequence[SlotRecord]) -> int:
        own, common = 0, set[int]()
        for record in records:
            read = len(record.tokens) // PAGE_TOKENS
            shared = min(read, record.shared)
            common.update(record.pages.pages[:shared])
            own += max(read, (record.reserved - record.expected) // PAGE_TOKENS) - shared
        return (own + len(common)) * PAGE_TOKENS

    def must_be_owned(self, slot: SlotView) -> bool:
        """Return whether others have a page to which a slot's next rows are to be written."""
        record = self._records[slot.id]
        first = len(record.tokens) // PAGE_TOKENS
        return first < record.shared and any(
            self._pool.readers(page) > 1 for page in record.pages.pages[first : record.shared]
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if a sequence has too few pages, or a page's readers are miscounted."""
        self._pool.check_integrity([*(one.pages for one in self._records), PageTable(tuple(self._targets))])
        for record in self._records:
            assert record.used <= record.capacity, f"slot {record.id}: {record.used} of {record.capacity} positions"
            others = [page for page in record.pages.pages[record.shared :] if self._pool.readers(page) > 1]
            assert not others, f"slot {record.id}: others have pages {others} behind the first {record.shared}"

    # --- changes ------------------------------------------------------------------------------------------------------

    def give(self, slot: SlotView, least: int, wanted: int) -> bool:
        """Let a slot have at least so many positions, and as many as are wanted if they are there; False if not."""
        record = self._changing(slot)
        have = len(record.pages)
        lacking = pages_for(least) - have
        if lacking > self._pool.free:
            return False
        count = min(max(lacking, pages_for(wanted) - have), self._pool.free)
        if count > 0:
            record.pages = record.pages.followed_by(self._pool.take(count, *record.pages.pages[-1:]))
        return True

    def fit(self, slot: SlotView, least: int = 0) -> None:
        """Take back what a slot does not need for its tokens, its reservation, and so many positions besides."""
        record = self._changing(slot)
        reserved = 0 if record.owner is None else record.reserved - record.expected
        self._cut(record, max(record.used, reserved, least))

    def share(self, slot: SlotView, source: SlotView, end: int) -> tuple[int, int]:
        """Let a slot have pages of another's that are full of the tokens before position `end`, behind its own pages.

        What the drafter has there comes along.  One page of its own stays, for what is behind.

        Returns:
            The positions that are shared: the first, and the one behind the last.
        """
        record, other = self._changing(slot), self._records[source.id]
        first, whole = pages_for(len(record.tokens)), end // PAGE_TOKENS
        if whole <= first:
            return end, end
        shared, own, spare = other.pages.pages[first:whole], record.pages.pages[:first], record.pages.pages[first:]
        kept = spare[min(whole - first, len(spare) - 1) :]
        self._pool.share(shared)
        self._pool.drop(spare[: len(spare) - len(kept)])
        record.pages = PageTable((*own, *shared, *kept))
        if not record.tokens:
            record.draft_first, record.draft_length = other.draft_first, other.draft_length
            record.trim_draft(whole * PAGE_TOKENS)
        record.expected, record.shared, other.shared = 0, whole, max(whole, other.shared)
        self.counts.shared_tokens += len(shared) * PAGE_TOKENS
        return first * PAGE_TOKENS, whole * PAGE_TOKENS

    def expect_nothing(self, slot: SlotView) -> None:
        """Note that a slot's holder reads its prompt itself."""
        if self._records[slot.id].expected:
            self._changing(slot).expected = 0

    def leave(self, slot: SlotView) -> None:
        """Let a slot have no pages behind its tokens that others read: its next rows are to be written there."""
        record = self._changing(slot)
        first = pages_for(len(record.tokens))
        behind = {page for page in record.pages.pages[first : record.shared] if self._pool.readers(page) > 1}
        if behind:
            self._pool.drop(behind)
            record.pages = PageTable(tuple(page for page in record.pages.pages if page not in behind))
        record.shared = min(record.shared, first)

    def own(self, slot: SlotView) -> CopyPage | None:
        """Take a page for a slot in place of the last of its tokens', if others read that, too; it is copied first.

        None where there is no such page, or none is free.
        """
        record = self._changing(slot)
        first, rows = divmod(len(record.tokens), PAGE_TOKENS)
        if not rows or self._pool.readers(record.pages.pages[first]) == 1 or not self._pool.free:
            return None
        (page,) = self._pool.take(1)
        self._targets.append(page)
        return CopyPage(record.id, record.pages.pages[first], page, rows)

    def note_copied(self, slot: SlotView, copied: CopyPage) -> None:
        """A page was copied, which the slot has now in the other's place."""
        record = self._changing(slot)
        pages = tuple(copied.target if page == copied.source else page for page in record.pages.pages)
        record.pages = PageTable(pages)
        self._targets.remove(copied.target)
        self._pool.drop([copied.source])
        self.counts.copied_pages += 1

    def note_not_copied(self, slot: SlotView, copied: CopyPage) -> None:
        """It could not be, and nobody has the page that it was to be copied to."""
        self._changing(slot)
        self._targets.remove(copied.target)
        self._pool.drop([copied.target])

    def clear(self) -> None:
        """Let no slot have anything: the device was lost, and all KV with it."""
        for record in self._records:
            self._cut(self._changing(record), 0)
        self._pool.drop(self._targets)
        self._targets.clear()

    def _cut(self, record: SlotRecord, positions: int) -> None:
        kept = pages_for(positions)
        if kept < len(record.pages):
            self._pool.drop(record.pages.pages[kept:])
            record.pages = PageTable(record.pages.pages[:kept])
            record.shared = min(record.shared, kept)
