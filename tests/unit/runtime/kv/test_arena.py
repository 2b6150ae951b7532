"""The allocator of the arena: no two own one position, nothing leaks, and everything that is free can be used."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.kv.arena import Arena, Extent, Relocation

POSITIONS = 640
UNIT = 64


def test_places_are_taken_from_the_lowest_on() -> None:
    arena = Arena(POSITIONS)
    assert arena.allocate(0, 10, 10)
    assert arena.allocate(1, 65, 65)
    assert (arena.extent(0), arena.extent(1)) == (Extent(0, 64), Extent(64, 128))
    arena.shrink(0, 0)
    assert arena.allocate(2, 64, 64)
    assert arena.extent(2) == Extent(0, 64)


def test_what_is_wanted_and_not_there_is_the_longest_place_that_will_do() -> None:
    arena = Arena(POSITIONS)
    for owner, wanted in enumerate((64, 64, 128, 128)):
        assert arena.allocate(owner, wanted, wanted)
    arena.shrink(0, 0)
    arena.shrink(2, 0)
    assert [gap.capacity for gap in arena.gaps()] == [64, 128, 256]
    assert not arena.allocate(9, 300, 400)
    assert arena.allocate(9, 128, 400)
    assert arena.extent(9) == Extent(384, 256)


def test_an_extent_grows_in_place_as_far_as_nobody_is_in_the_way() -> None:
    arena = Arena(POSITIONS)
    arena.allocate(0, 64, 64)
    arena.allocate(1, 64, 64)
    assert not arena.grow(0, 65, 128)
    assert arena.extent(0) == Extent(0, 64)
    assert arena.grow(1, 65, 10_000)
    assert arena.extent(1) == Extent(64, 576)
    arena.shrink(1, 100)
    assert arena.extent(1) == Extent(64, 128)
    assert arena.free == POSITIONS - 64 - 128


def test_no_extent_is_longer_than_the_longest() -> None:
    arena = Arena(300, longest=100)
    assert arena.allocate(0, 90, 500)
    assert arena.extent(0) == Extent(0, 100)
    assert arena.rounded(65) == 100


def test_who_is_moved_has_both_places_until_the_end() -> None:
    arena = Arena(POSITIONS)
    arena.allocate(0, 64, 64)
    arena.allocate(1, 128, 128)
    arena.begin_relocation(Relocation(0, Extent(192, 128)))
    assert arena.free == POSITIONS - 64 - 128 - 128
    arena.end_relocation(0)
    assert arena.extent(0) == Extent(192, 128)
    assert arena.gaps() == [Extent(0, 64), Extent(320, 320)]


def test_a_move_that_is_given_up_leaves_what_there_was() -> None:
    arena = Arena(POSITIONS)
    arena.allocate(0, 64, 64)
    arena.begin_relocation(Relocation(0, Extent(192, 128)))
    arena.abandon_relocation(0)
    assert arena.gaps() == [Extent(64, 576)]


def test_the_cheaper_way_to_more_room_is_taken() -> None:
    """Its own copy, where that is short; else those who are in the way."""
    for own, other, mover in ((10, 60, 0), (60, 10, 1)):
        arena = Arena(POSITIONS)
        for owner in (0, 1):
            arena.allocate(owner, 64, 64)
        move = arena.plan_relocation(0, 128, 128, {0: own, 1: other})
        assert move is not None
        assert move.owner == mover


def test_nobody_is_moved_who_may_not_be() -> None:
    arena = Arena(256)
    for owner in range(3):
        arena.allocate(owner, 64, 64)
    assert arena.plan_relocation(0, 128, 128, {}, fixed={2}) is None
    assert arena.plan_relocation(0, 128, 128, {}, fixed={0}) is None
    assert arena.plan_relocation(0, 128, 128, {}) == Relocation(2, Extent(192, 64))


class ArenaMachine(RuleBasedStateMachine):
    """Any owners that come, grow, are moved and leave, beside a record of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(POSITIONS)
        self.needed: dict[int, int] = {}

    owners = st.integers(0, 5)
    sizes = st.integers(1, POSITIONS)

    @rule(owner=owners, least=sizes, more=st.integers(0, 300))
    def come_or_grow(self, owner: int, least: int, more: int) -> None:
        """Give an owner room, or more of it."""
        before = self.arena.gaps()
        if self.arena.target(owner) is not None:
            return
        if owner not in self.needed:
            got = self.arena.allocate(owner, least, least + more)
            assert got == any(gap.capacity >= self.arena.rounded(least) for gap in before)
        else:
            got = self.arena.grow(owner, least, least + more)
        if got:
            extent = self.arena.extent(owner)
            assert extent is not None
            assert extent.capacity >= least
            self.needed[owner] = max(least, self.needed.get(owner, 0))

    @precondition(lambda self: self.needed)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Take all of an owner's room back."""
        owner = data.draw(st.sampled_from(sorted(self.needed)))
        if self.arena.target(owner) is None:
            self.arena.shrink(owner, 0)
            del self.needed[owner]

    @precondition(lambda self: self.needed)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        """Take some of it back."""
        owner = data.draw(st.sampled_from(sorted(self.needed)))
        if self.arena.target(owner) is None:
            self.needed[owner] = data.draw(st.integers(1, self.needed[owner]))
            self.arena.shrink(owner, self.needed[owner])

    @rule(owner=owners, least=sizes, ends=st.sampled_from(["end", "abandon", "wait"]))
    def move(self, owner: int, least: int, ends: str) -> None:
        """Make the next move that would bring an owner more room."""
        move = self.arena.plan_relocation(owner, least, least, self.needed)
        if move is None:
            return
        self.arena.begin_relocation(move)
        if ends == "end":
            self.arena.end_relocation(move.owner)
        elif ends == "abandon":
            self.arena.abandon_relocation(move.owner)

    @rule(owner=owners, other=owners)
    def exchange(self, owner: int, other: int) -> None:
        """Let two owners have what the other has."""
        if self.arena.target(owner) is not None or self.arena.target(other) is not None:
            return
        before = self.arena.extent(owner), self.arena.extent(other)
        self.arena.exchange(owner, other)
        assert (self.arena.extent(other), self.arena.extent(owner)) == before
        names = {owner: other, other: owner}
        self.needed = {names.get(one, one): needed for one, needed in self.needed.items()}

    @rule()
    def end_all_relocations(self) -> None:
        """End what was begun."""
        for owner in self.needed:
            if self.arena.target(owner) is not None:
                self.arena.end_relocation(owner)

    @invariant()
    def nobody_has_what_another_has(self) -> None:
        """No position has two owners."""
        self.arena.check_integrity()

    @invariant()
    def everybody_has_what_it_needs(self) -> None:
        """An extent is as long as was asked for."""
        for owner, needed in self.needed.items():
            extent = self.arena.extent(owner)
            assert extent is not None
            assert extent.capacity >= needed

    @invariant()
    def nothing_leaks(self) -> None:
        """Check that what is free, and what is taken, are all there is."""
        taken = set[int]()
        for owner in self.needed:
            for extent in (self.arena.extent(owner), self.arena.target(owner)):
                taken.update(range(extent.first, extent.end) if extent is not None else ())
        assert self.arena.free == POSITIONS - len(taken)


TestArenaMachine = ArenaMachine.TestCase


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=6),
    gone=st.sets(st.integers(0, 5)),
    grows=st.integers(0, 6),
    rows=st.lists(st.integers(0, 200), min_size=7, max_size=7),
)
def test_everything_that_is_free_can_be_used(sizes: list[int], gone: set[int], grows: int, rows: list[int]) -> None:
    """By somebody new or by somebody who grows, after moves that come to an end and copy each row once at most."""
    arena = Arena(POSITIONS)
    for owner, size in enumerate(sizes):
        arena.allocate(owner, size, size)
    for owner in gone:
        if arena.extent(owner) is not None:
            arena.shrink(owner, 0)
    extent = arena.extent(grows)
    least = (0 if extent is None else extent.capacity) + arena.free
    if not least:
        return
    moved: list[int] = []
    while (move := arena.plan_relocation(grows, least, least, dict(enumerate(rows)))) is not None:
        arena.begin_relocation(move)
        arena.check_integrity()
        arena.end_relocation(move.owner)
        moved.append(move.owner)
        assert len(moved) <= 12
    assert arena.allocate(grows, least, least) if extent is None else arena.grow(grows, least, least)
    assert arena.free == 0
    arena.check_integrity()
