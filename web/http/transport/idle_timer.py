"""Timer of a connection that has been idle for too long."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class IdleTimer:
    """Measures how long a connection has been idle, in one task for all of its life: a request only moves a deadline.

    Args:
        seconds: that a connection may be idle.

    Attributes:
        is_paused: whether no time counts now.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left = math.inf  # seconds, when this was last set or paused
        self.is_paused = False
        self._scope = trio.CancelScope()

    def begin(self) -> None:
        """Begin to measure: the connection is idle from now on."""
        self._set(self._seconds)

    def stop(self) -> None:
        """Stop measuring: the connection is not idle any more."""
        self._set(math.inf)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count no time in a `with` block: meanwhile the client waits, for others."""
        self._left = self._scope.deadline - trio.current_time()
        self.is_paused, self._scope.deadline = True, math.inf
        try:
            yield
        finally:
            self.is_paused = False
            self._set(self._left)

    def _set(self, left: float) -> None:
        self._left = left
        if not self.is_paused:
            self._scope.deadline = trio.current_time() + left

    async def expired(self, end: Callable[[], Awaitable[object]]) -> None:
        """Wait until the connection has been idle for too long.  Once `end` returns, any time is too long."""
        with self._scope:
            await end()
            self._seconds = 0
            if self._left < math.inf:
                self.begin()
            await trio.sleep_forever()
