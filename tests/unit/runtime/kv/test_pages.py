"""Pages: no two sequences write to one, none is lost, and they lie one behind the other where that can be."""

from __future__ import annotations

import pickle
from collections import Counter
from ctypes import c_int32
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime.kv.pages import NO_PAGES, PAGE_TOKENS, PagePool, PageTable, in_one_piece, pages_for, pool_positions

TABLES = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True).map(lambda pages: PageTable(tuple(pages)))


@given(table=TABLES, data=st.data())
def test_runs_are_the_places_of_all_positions_in_as_few_pieces_as_can_be(table: PageTable, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, table.capacity))
    start = data.draw(st.integers(0, end))
    runs = list(table.runs(start, end))
    assert [place + i for _, place, rows in runs for i in range(rows)] == table.places(start, end)
    assert [first + i for first, _, rows in runs for i in range(rows)] == list(range(start, end))
    for (_, place, rows), (_, following, _) in pairwise(runs):
        assert place + rows != following, "these two lie one behind the other"


def test_a_table_is_what_kernels_and_other_processes_read_of_it() -> None:
    table = PageTable((7, 3)).followed_by((9,))
    assert (len(table), table.capacity, table.place(PAGE_TOKENS + 5)) == (3, 3 * PAGE_TOKENS, 3 * PAGE_TOKENS + 5)
    assert list((c_int32 * 3).from_address(table.address)) == [7, 3, 9]
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert list((c_int32 * 3).from_address(again.address)) == [7, 3, 9]


def test_sizes_are_in_whole_pages() -> None:
    assert [pages_for(positions) for positions in (0, 1, 64, 65)] == [0, 1, 1, 2]
    assert [pool_positions(3, 65), pool_positions(3, 65, 65), pool_positions(3, 65, 0)] == [384, 128, 0]
    assert in_one_piece(65, 4) == PageTable((4, 5))
    assert in_one_piece(0) == NO_PAGES


def test_pages_are_taken_from_the_lowest_run_that_is_long_enough() -> None:
    pool = PagePool(12)
    pool.take(12)
    pool.drop([1, 3, 4, 7, 8, 9, 11])
    assert pool.take(2) == (3, 4)
    assert pool.take(4) == (7, 8, 9, 1), "the longest there is, and then the rest"
    assert pool.free == 1


def test_a_sequence_goes_on_behind_its_last_page_where_that_is_free() -> None:
    pool = PagePool(12)
    first = pool.take(2)
    assert pool.take(2, behind=first[-1]) == (2, 3)
    assert pool.take(1) == (4,)
    assert pool.take(2, behind=3) == (5, 6), "another lies behind it"
    pool.drop([2])
    assert pool.take(3, behind=1) == (2, 7, 8), "one page is there, and the others are in one piece elsewhere"
    assert pool.take(1, behind=11) == (9,), "there is no page behind the last"


def test_a_page_is_free_when_its_last_reader_has_gone() -> None:
    pool = PagePool(4)
    pages = pool.take(2)
    pool.share(pages[:1])
    pool.drop(pages)
    assert (pool.free, pool.shared, pool.readers(0), pool.readers(1)) == (3, 0, 1, 0)
    pool.drop([0])
    assert pool.take(4) == (0, 1, 2, 3)


def test_what_nobody_reads_is_neither_shared_nor_dropped_nor_taken_twice() -> None:
    pool = PagePool(4)
    pool.take(3)
    with pytest.raises(AssertionError, match="page 3 is shared, and nobody reads it"):
        pool.share([3])
    with pytest.raises(AssertionError, match="page 3 is dropped"):
        pool.drop([3])
    with pytest.raises(AssertionError, match="2 pages are taken, and 1 are free"):
        PagePool(1).take(2)


@pytest.mark.parametrize(
    ("tables", "wrong"), [([(0, 0)], "twice"), ([(0,)], "miscounted"), ([(0, 1), (1,), (1,)], "miscounted")]
)
def test_a_count_that_is_wrong_is_found(tables: list[tuple[int, ...]], wrong: str) -> None:
    pool = PagePool(4)
    pool.share(pool.take(2)[1:])
    pool.check_integrity([PageTable((0, 1)), PageTable((1,))])
    with pytest.raises(AssertionError, match=wrong):
        pool.check_integrity(map(PageTable, tables))


class PoolMachine(RuleBasedStateMachine):
    """Any sequences that come, grow, share and leave, beside a record of their own."""

    @initialize(pages=st.integers(1, 12))
    def begin(self, pages: int) -> None:
        """Open a pool."""
        self.pool = PagePool(pages)
        self.tables: list[PageTable] = []

    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        """Begin a sequence, behind pages that others have."""
        shared = data.draw(st.sampled_from([NO_PAGES, *self.tables]))
        shared = PageTable(shared.pages[: data.draw(st.integers(0, len(shared)))])
        self.pool.share(shared.pages)
        self.tables.append(self._longer(shared, data))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """Give one more pages."""
        place = data.draw(st.integers(0, len(self.tables) - 1))
        self.tables[place] = self._longer(self.tables[place], data)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Take the last pages of one back, or all."""
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        kept = data.draw(st.integers(0, len(table)))
        self.pool.drop(table.pages[kept:])
        self.tables.append(PageTable(table.pages[:kept]))

    def _longer(self, table: PageTable, data: st.DataObject) -> PageTable:
        before = {page for one in self.tables for page in one.pages}
        taken = self.pool.take(data.draw(st.integers(0, self.pool.free)), *table.pages[-1:])
        assert not before & {*taken}, "somebody reads them"
        return table.followed_by(taken)

    @invariant()
    def pages_are_counted(self) -> None:
        """Each page has as many readers as tables name it, and who has none is free."""
        readers = Counter(page for table in self.tables for page in table.pages)
        assert [self.pool.readers(page) for page in range(self.pool.size)] == [
            readers[i] for i in range(self.pool.size)
        ]
        assert self.pool.free == self.pool.size - len(readers)
        assert self.pool.shared == sum(count > 1 for count in readers.values())
        self.pool.check_integrity(self.tables)


TestPoolMachine = PoolMachine.TestCase
