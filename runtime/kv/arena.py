"""The allocator of the KV arena: which sequence has which range of its positions.  Pure arithmetic.

The arena is one axis of positions that all sequences share (`runtime.kv.cache`).  Each has an *extent*, one contiguous
range, so that attention reads its KV as a view.  An extent grows in place while what follows it is free, and is moved
where that is not so.  Places are taken from the lowest position on, so that high ones stay untouched: memory that no
sequence has reached costs nothing.

Who copies what lies there is not said here.  While a sequence is copied it has both places, the one that it has and the
one that it will have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """A range of positions: `capacity` of them, from `first` on."""

    first: int
    capacity: int

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.first + self.capacity

    def overlaps(self, other: Extent) -> bool:
        """Return whether any position is in both."""
        return self.first < other.end and other.first < self.end


@dataclass(frozen=True, slots=True)
class Relocation:
    """An extent that is to be moved: whose, and where to."""

    owner: int
    target: Extent


@dataclass(frozen=True, slots=True)
class _Claim:
    """Extents of one owner: what it has, and will have if it is being moved."""

    first: int
    end: int
    owner: int


class Arena:
    """The extents by owner, which are any numbers.

    Args:
        positions: of the arena.
        longest: the most positions of one extent; None for all.
        unit: extents have multiples of so many positions, but for those that are as long as they may be.
    """

    def __init__(self, positions: int, longest: int | None = None, unit: int = BLOCK_TOKENS) -> None:
        self.positions = positions
        self.longest = positions if longest is None else min(longest, positions)
        self._unit = unit
        self._extents: dict[int, Extent] = {}
        self._targets: dict[int, Extent] = {}  # of those that are being moved

    # --- looking in ---------------------------------------------------------------------------------------------------

    def extent(self, owner: int) -> Extent | None:
        """Return an owner's extent, the old one while it is moved; None if it has none."""
        return self._extents.get(owner)

    def target(self, owner: int) -> Extent | None:
        """Return where an owner's extent is being moved to; None if it is not."""
        return self._targets.get(owner)

    @property
    def free(self) -> int:
        """Return how many positions are nobody's."""
        return sum(gap.capacity for gap in self.gaps())

    def rounded(self, positions: int) -> int:
        """Return how many positions an extent has that is to have at least so many."""
        return min(-(-positions // self._unit) * self._unit, self.longest)

    def gaps(self) -> list[Extent]:
        """Return the free ranges, the lowest first."""
        return [gap for gap in _gaps(self._claims(), self.positions) if gap.capacity]

    def check_integrity(self) -> None:
        """Raise AssertionError if two owners have one position, or a position is not of the arena."""
        claimed = [(extent, owner) for extents in (self._extents, self._targets) for owner, extent in extents.items()]
        for place, (extent, owner) in enumerate(claimed):
            assert 0 < extent.capacity <= self.longest, extent
            assert 0 <= extent.first <= extent.end <= self.positions, extent
            for other, another in claimed[:place]:
                assert owner == another or not extent.overlaps(other), (owner, extent, another, other)
        assert self._targets.keys() <= self._extents.keys(), "what has no extent is being moved"

    # --- changes ------------------------------------------------------------------------------------------------------

    def allocate(self, owner: int, least: int, wanted: int) -> bool:
        """Give an owner that has no extent the lowest one of `wanted` positions, or the longest there is.

        False if there is none of at least `least`.
        """
        assert owner not in self._extents, f"{owner} has an extent"
        least, wanted = self.rounded(least), self.rounded(wanted)
        place = self._choose(least, wanted)
        if place is None:
            return False
        self._extents[owner] = place
        return True

    def grow(self, owner: int, least: int, wanted: int) -> bool:
        """Let an extent have `wanted` positions in place, or as many as follow it; False if not at least `least`."""
        extent = self._extents[owner]
        least, wanted = self.rounded(least), self.rounded(wanted)
        assert owner not in self._targets, f"{owner} is being moved"
        behind = [claim.first for claim in self._claims() if claim.first >= extent.end]
        capacity = min(wanted, min(behind, default=self.positions) - extent.first)
        if capacity < least:
            return False
        self._extents[owner] = Extent(extent.first, max(extent.capacity, capacity))
        return True

    def shrink(self, owner: int, positions: int) -> None:
        """Let an extent have no more than are needed for so many positions; none for 0."""
        extent, capacity = self._extents[owner], self.rounded(positions)
        assert owner not in self._targets, f"{owner} is being moved"
        if not capacity:
            del self._extents[owner]
        elif capacity < extent.capacity:
            self._extents[owner] = Extent(extent.first, capacity)

    def exchange(self, owner: int, other: int) -> None:
        """Let two owners, with or without an extent, have what the other has."""
        assert not {owner, other} & self._targets.keys(), f"{owner} or {other} is being moved"
        mine, theirs = self._extents.pop(owner, None), self._extents.pop(other, None)
        if theirs is not None:
            self._extents[owner] = theirs
        if mine is not None:
            self._extents[other] = mine

    def begin_relocation(self, relocation: Relocation) -> None:
        """Give an owner a second place, which is to be its only one once all is copied."""
        owner, target = relocation.owner, relocation.target
        assert owner in self._extents, f"{owner} has no extent"
        assert owner not in self._targets, f"{owner} is being moved already"
        self._targets[owner] = target

    def end_relocation(self, owner: int) -> None:
        """Let an owner have its new place only."""
        self._extents[owner] = self._targets.pop(owner)

    def abandon_relocation(self, owner: int) -> None:
        """Let an owner keep the place that it had."""
        del self._targets[owner]

    def clear(self) -> None:
        """Let nobody have anything."""
        self._extents.clear()
        self._targets.clear()

    # --- plans --------------------------------------------------------------------------------------------------------

    def plan_relocation(
        self, owner: int, least: int, wanted: int, rows: Mapping[int, int], fixed: Set[int] = frozenset()
    ) -> Relocation | None:
        """Return the next move that leads to `least` positions for an owner, with or without an extent.

        Either its own extent goes to a gap that is long enough; or free ranges are brought together, by sliding what
        lies between them down or up, until what follows the extent is long enough, or a gap is.  What costs less is
        chosen.  Asked again after each move, it comes to an end: everything that is free can be used.

        Args:
            owner: who needs room.
            least: positions that it needs.
            wanted: positions that it takes if its own extent is moved, and there are so many.
            rows: of each owner, how many positions have to be copied.
            fixed: who may not be moved now, besides those that are being moved.

        Returns:
            None where what is free, and can be brought together, is not enough, or where no move is needed.
        """
        least, wanted = self.rounded(least), self.rounded(wanted)
        claims, fixed = self._claims(), fixed | self._targets.keys()
        extent = self._extents.get(owner)
        if owner in fixed or (extent is not None and extent.capacity >= least):
            return None
        at = next((place for place, claim in enumerate(claims) if claim.owner == owner), None)
        window = _cheapest_window(claims, self._widths(claims), at, least, rows, fixed)
        place = None if at is None else self._choose(least, wanted)
        if place is not None and (window is None or rows.get(owner, 0) <= window.cost):
            return Relocation(owner, place)
        return None if window is None else self._first_slide(claims, window)

    def _first_slide(self, claims: Sequence[_Claim], window: _Window) -> Relocation | None:
        """Return the first move that a window needs: down what lies before its middle, then up what lies behind."""
        widths = self._widths(claims)
        for place in range(window.first, window.middle):
            if widths[place]:
                return self._slide(claims[place], -widths[place])
        for place in reversed(range(window.middle, window.last)):
            if widths[place + 1]:
                return self._slide(claims[place], widths[place + 1])
        return None

    def _slide(self, claim: _Claim, by: int) -> Relocation:
        return Relocation(claim.owner, Extent(claim.first + by, claim.end - claim.first))

    def _choose(self, least: int, wanted: int) -> Extent | None:
        """Return the lowest free range of `wanted` positions, or the longest of at least `least`."""
        gaps = self.gaps()
        gap = next((gap for gap in gaps if gap.capacity >= wanted), None)
        if gap is None:
            gap = max(gaps, key=lambda gap: gap.capacity, default=None)
        if gap is None or gap.capacity < least:
            return None
        return Extent(gap.first, min(gap.capacity, wanted))

    def _widths(self, claims: Sequence[_Claim]) -> list[int]:
        """Return how many positions are free before each claim, and behind the last."""
        return [gap.capacity for gap in _gaps(claims, self.positions)]

    def _claims(self) -> list[_Claim]:
        """Return all that is taken, the lowest first; of who is being moved, two ranges that may overlap are one."""
        claims = []
        for owner, extent in self._extents.items():
            target = self._targets.get(owner)
            if target is None:
                claims.append(_Claim(extent.first, extent.end, owner))
            elif target.overlaps(extent):
                claims.append(_Claim(min(extent.first, target.first), max(extent.end, target.end), owner))
            else:
                claims += (_Claim(one.first, one.end, owner) for one in (extent, target))
        return sorted(claims, key=lambda claim: claim.first)


@dataclass(frozen=True, slots=True)
class _Window:
    """Free ranges that are to be brought together, by the claims between them.

    Attributes:
        first, last: the claims that have to be moved are those from the first to before the last.
        middle: of these, those before it slide down, and the others up.
        cost: positions to be copied.
    """

    first: int
    middle: int
    last: int
    cost: int


def _gaps(claims: Sequence[_Claim], positions: int) -> list[Extent]:
    """Return the range before each claim, which may be empty, and the one behind the last."""
    starts = [0, *(claim.end for claim in claims)]
    ends = [*(claim.first for claim in claims), positions]
    return [Extent(start, end - start) for start, end in zip(starts, ends, strict=True)]


def _cheapest_window(
    claims: Sequence[_Claim],
    widths: Sequence[int],
    at: int | None,
    least: int,
    rows: Mapping[int, int],
    fixed: Set[int],
) -> _Window | None:
    """Return the window that costs least, of those in which `least` positions come together behind claim `at`.

    Where nobody needs more (`at` is None), the positions are a gap anywhere, and all that lies between slides down.
    """
    costs = [None if claim.owner in fixed else rows.get(claim.owner, 0) for claim in claims]
    best: _Window | None = None
    own = 0 if at is None else claims[at].end - claims[at].first
    firsts = range(len(widths)) if at is None else range(at + 1, -1, -1)
    for first in firsts:
        moved = [] if at is None else costs[first : at + 1]
        if None in moved:
            continue
        cost, last = sum(one for one in moved if one is not None), first if at is None else at + 1
        have = own + sum(widths[first : last + 1])
        while have < least and last < len(claims) and (more := costs[last]) is not None:
            cost, last = cost + more, last + 1
            have += widths[last]
        if have >= least and (best is None or cost < best.cost):
            best = _Window(first, last if at is None else at + 1, last, cost)
    return best
