"""The clock by which stored objects grow old: no jump of the machine's clock takes much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class StoreClock:
    """Seconds that pass as the server sees them pass, and little of what it did not see.

    While the server runs, its steady clock counts.  By how much the wall clock has gone ahead of that since it was last
    looked at (the server was off, the machine slept, or somebody set the clock) counts up to `most_unseen`, each time.

    Args:
        wall: seconds since the epoch.
        steady: seconds, from anywhere on, that no setting of the clock changes.
        most_unseen: seconds.
        seen: the time of this clock when it was last looked at, and that of the wall clock then; None for a new one.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        steady: Callable[[], float],
        most_unseen: float,
        seen: tuple[float, float] | None = None,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._most_unseen = most_unseen
        self._at = steady()
        self._seen = (wall(), wall()) if seen is None else seen

    def look(self) -> tuple[float, float]:
        """Return the time now, and that of the wall clock."""
        at, wall = self._steady(), self._wall()
        passed = at - self._at
        time, last = self._seen
        unseen = wall - last - passed
        self._at = at
        self._seen = time + passed + min(max(0.0, unseen), self._most_unseen), wall
        return self._seen
