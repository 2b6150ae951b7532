"""Pages of KV: where a sequence lies in the pool that all sequences share, and who reads which page.

A page has the keys and values of `PAGE_TOKENS` positions, in every layer, in the drafter's KV and in the stored states.
A sequence is a list of pages, its `PageTable`.  Several sequences may have a page in common: then none of them writes
to it.  Pure arithmetic; the tensors are in `runtime.kv.cache`.
"""

from __future__ import annotations

from bisect import bisect_left
from ctypes import addressof, c_int32
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ctypes import Array

PAGE_TOKENS = BLOCK_TOKENS  # a block is what is shared, kept and named


def pages_for(positions: int) -> int:
    """Return how many pages so many positions take."""
    return -(-positions // PAGE_TOKENS)


def pool_positions(slots: int, context: int, positions: int | None = None) -> int:
    """Return the positions of the pool, in whole pages: None for as many as all slots have at their longest."""
    return (slots * pages_for(context) if positions is None else pages_for(positions)) * PAGE_TOKENS


@dataclass(frozen=True)
class PageTable:
    """The pages of one sequence, in order.  Immutable, so that a step may read it while others get pages.

    A *place* is a position of the pool: the row at which a position of the sequence lies there.
    """

    pages: tuple[int, ...] = ()

    def __len__(self) -> int:
        """Return how many pages it has."""
        return len(self.pages)

    @property
    def capacity(self) -> int:
        """Return how many positions it has."""
        return len(self.pages) * PAGE_TOKENS

    def followed_by(self, pages: tuple[int, ...]) -> PageTable:
        """Return a table with these pages behind its own."""
        return PageTable((*self.pages, *pages))

    def place(self, position: int) -> int:
        """Return where a position lies."""
        return self.pages[position // PAGE_TOKENS] * PAGE_TOKENS + position % PAGE_TOKENS

    def places(self, start: int, end: int) -> list[int]:
        """Return where each of these positions lies."""
        return [self.place(position) for position in range(start, end)]

    def runs(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the pieces in which positions lie one after the other: the first position, its place, and how many."""
        while start < end:
            page = start // PAGE_TOKENS
            last = page
            while (last + 1) * PAGE_TOKENS < end and self.pages[last + 1] == self.pages[last] + 1:
                last += 1
            stop = min(end, (last + 1) * PAGE_TOKENS)
            yield start, self.place(start), stop - start
            start = stop

    @cached_property
    def address(self) -> int:
        """The address of its pages as int32, for kernels; valid as long as this object."""
        return addressof(self._numbers)

    @cached_property
    def _numbers(self) -> Array[c_int32]:
        return (c_int32 * len(self.pages))(*self.pages)

    def __getstate__(self) -> tuple[int, ...]:
        """Return the pages alone: addresses mean nothing elsewhere."""
        return self.pages

    def __setstate__(self, pages: tuple[int, ...]) -> None:
        """Take them."""
        object.__setattr__(self, "pages", pages)


NO_PAGES = PageTable()


def in_one_piece(positions: int, first: int = 0) -> PageTable:
    """Return the table of a sequence that lies from page `first` on, one page behind the other."""
    return PageTable(tuple(range(first, first + pages_for(positions))))


class PagePool:
    """The pages, and how many sequences read each.

    Pages are taken one behind the other where that can be: kernels read them the faster (bench/LOG.md), and PyTorch's
    attention as a view.  They are taken from the lowest on, so that high ones stay untouched: memory that no sequence
    has reached costs nothing.

    Args:
        pages: how many there are.
    """

    def __init__(self, pages: int) -> None:
        self.size = pages
        self._readers = [0] * pages
        self._free = list(range(pages))  # ascending

    @property
    def free(self) -> int:
        """Return how many pages nobody reads."""
        return len(self._free)

    @property
    def shared(self) -> int:
        """Return how many pages several sequences read."""
        return sum(readers > 1 for readers in self._readers)

    def readers(self, page: int) -> int:
        """Return how many sequences read a page."""
        return self._readers[page]

    def take(self, count: int, behind: int | None = None) -> tuple[int, ...]:
        """Take so many free pages, which one sequence reads from now on.

        Args:
            count: of them; no more than are free.
            behind: the page that the first is best behind; None for a sequence's beginning.
        """
        assert count <= len(self._free), f"{count} pages are taken, and {len(self._free)} are free"
        taken: list[int] = []
        place = len(self._free) if behind is None else bisect_left(self._free, behind + 1)
        if behind is not None and place < len(self._free) and self._free[place] == behind + 1:
            taken += self._take_run(place, count)
        while len(taken) < count:
            taken += self._take_run(self._longest_run(count - len(taken)), count - len(taken))
        for page in taken:
            self._readers[page] = 1
        return tuple(taken)

    def share(self, pages: Iterable[int]) -> None:
        """Note that one sequence more reads these."""
        for page in pages:
            assert self._readers[page], f"page {page} is shared, and nobody reads it"
            self._readers[page] += 1

    def drop(self, pages: Iterable[int]) -> None:
        """Note that one sequence less reads these; whom nobody reads is free."""
        freed = []
        for page in pages:
            self._readers[page] -= 1
            assert self._readers[page] >= 0, f"page {page} is dropped by one who does not read it"
            if not self._readers[page]:
                freed.append(page)
        if freed:
            self._free = sorted([*self._free, *freed])  # two ascending runs, which costs a pass

    def check_integrity(self, tables: Iterable[PageTable]) -> None:
        """Raise AssertionError unless these are all the sequences, and each page's readers are counted."""
        readers = [0] * self.size
        for table in tables:
            assert len(set(table.pages)) == len(table), f"one sequence has a page twice: {table.pages}"
            for page in table.pages:
                readers[page] += 1
        assert readers == self._readers, "the pages' readers are miscounted"
        assert self._free == [page for page in range(self.size) if not readers[page]], "free pages have readers"

    def _take_run(self, place: int, most: int) -> list[int]:
        """Take the free pages that lie one behind the other from the one at a place of the list on, at most so many."""
        end = place + 1
        while end - place < most and end < len(self._free) and self._free[end] == self._free[end - 1] + 1:
            end += 1
        run = self._free[place:end]
        del self._free[place:end]
        return run

    def _longest_run(self, wanted: int) -> int:
        """Return where, in the list, the lowest run of so many free pages begins; or the longest there is."""
        best = best_length = first = 0
        for place in range(1, len(self._free) + 1):
            if place < len(self._free) and self._free[place] == self._free[place - 1] + 1:
                continue
            if place - first > best_length:
                best, best_length = first, place - first
            if best_length >= wanted:
                break
            first = place
        return best
