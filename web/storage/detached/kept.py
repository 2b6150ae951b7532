"""The answers of requests that have ended, kept for clients that come back: for a while, and within a bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web.storage.detached.run import Changes, Run


class KeptRuns:
    """Requests that have ended, in the order of their ends.  Those that ended first make room.

    One task waits for the times of all: a task for each would hold the context of the client that asked, which is more
    than most answers are.

    Args:
        most: bytes, as `Run.held` counts them.
        changes: is told what is kept and dropped.

    Attributes:
        nbytes: of all of them.
    """

    def __init__(self, most: int, changes: Changes) -> None:
        self.nbytes = 0
        self._most = most
        self._changes = changes
        self._runs: dict[str, Run] = {}
        self._next = trio.CancelScope()  # of the wait for the first whose time is over

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        """Yield those that are there now."""
        yield from list(self._runs.values())

    def get(self, request_id: str) -> Run | None:
        """Return the one of that id, if it is kept."""
        return self._runs.get(request_id)

    def keep(self, run: Run) -> None:
        """Keep one that has just ended, until its time is over or others need the room."""
        run.keep_until(trio.current_time())
        self._runs[run.id] = run
        self.nbytes += run.held
        self._changes.happened("kept", run)
        while self.nbytes > self._most:
            self.drop(next(iter(self._runs.values())))
        self._next.deadline = min(self._next.deadline, run.over_at)

    def drop(self, run: Run) -> None:
        """Drop one, if it is kept."""
        if self._runs.pop(run.id, None) is not None:
            self.nbytes -= run.held
            self._changes.happened("dropped", run)

    async def drop_in_time(self) -> None:
        """Drop each when its time is over; ends by being cancelled."""
        while True:
            self._next = trio.CancelScope(deadline=min((run.over_at for run in self), default=math.inf))
            with self._next:
                await trio.sleep_forever()
            for run in self:
                if run.over_at <= trio.current_time():
                    self.drop(run)
