"""The share of the event loop that handling what clients send may take, so that what is being answered keeps the rest.

Everybody's tokens go through one event loop, and the model's thread waits for the interpreter while the loop is busy.
Trio runs all tasks that are ready in each pass: connections with something to handle would have as many turns as there
are of them to a stream's one.  So connections handle what they received in turns, of a bounded number of frames or
one request; the time that this takes of the loop is measured, with that of the requests until they have answered,
stream or wait for the model; and when it was more than a share, the next turn waits.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    from web.http.transport.idle_timer import IdleTimer

T = TypeVar("T")

REST = 3.0
"""Seconds of rest for each second that was taken."""

YOUNG = 0.05
"""Seconds from which on a request is one that the others are to leave room for: it waits for the model, or streams."""

CREDIT = 0.03
"""Seconds of work and rest that may be taken in advance, by who comes after a pause."""

MOST_REST = 1.0
"""Seconds of rest at most, whatever was taken: by many short requests before a long one, or by a loop that was held."""


class LoopShare:
    """Gives all connections of a server their turns, one after the other, as far as the loop's time allows."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._free_at = -math.inf  # when what was taken will be made up for
        self._begun: dict[Hashable, float] = {}  # the requests that run, the oldest first, with their times

    def begin(self, request: Hashable) -> None:
        """Let a request count as running."""
        self._begun[request] = trio.current_time()

    def end(self, request: Hashable) -> None:
        """Let a request count no more."""
        del self._begun[request]

    async def turn(self) -> None:
        """Wait for a turn, behind those who came before; where no request is older than `YOUNG` there is no rest."""
        async with self._lock:
            latest = trio.current_time() + MOST_REST  # others may take more of the loop meanwhile, again and again
            while trio.current_time() < min(self._free_at, latest) and self._is_anyone_answered():  # noqa: ASYNC110
                await trio.sleep_until(min(self._free_at, latest))

    def _is_anyone_answered(self) -> bool:
        return trio.current_time() - next(iter(self._begun.values()), math.inf) >= YOUNG

    def charge(self, seconds: float) -> None:
        """Count the seconds until now as taken."""
        now = trio.current_time()
        free_at = max(self._free_at, now - seconds - CREDIT) + (1 + REST) * seconds
        self._free_at = min(free_at, now + MOST_REST)

    async def charged(
        self, task: Coroutine[Any, Any, T], is_over: Callable[[], bool] = lambda: False, seconds: float = math.inf
    ) -> T:
        """Run a coroutine; what its steps take of the loop counts as taken.

        Args:
            task: is run.
            is_over: from when on it counts no more.
            seconds: after which no step counts that begins.
        """
        return await _Charged(self, task, is_over, trio.current_time() + seconds)


class Turns:
    """The turns of one connection.

    Args:
        share: gives them.
        idle_timer: of the connection.

    Attributes:
        taken: how many it has had.
    """

    def __init__(self, share: LoopShare, idle_timer: IdleTimer) -> None:
        self._share = share
        self._idle_timer = idle_timer
        self.taken = 0

    @property
    def is_awaited(self) -> bool:
        """Return whether it waits for one, which its client can do nothing about."""
        return self._idle_timer.is_paused

    async def next(self) -> None:
        """Wait for a turn; see `LoopShare.turn`."""
        with self._idle_timer.paused():
            await self._share.turn()
        self.taken += 1


class _Charged(Generator[Any, Any, T]):
    """The steps of a coroutine, each of which is charged for."""

    def __init__(
        self, share: LoopShare, task: Coroutine[Any, Any, T], is_over: Callable[[], bool], until: float
    ) -> None:
        self._share = share
        self._task = task
        self._is_over = is_over
        self._until = until

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any, /) -> Any:  # noqa: ANN401  # whatever Trio says
        return self._step(self._task.send, value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401  # as in a generator
        return self._step(self._task.throw, *error)

    def _step(self, resume: Callable[..., Any], *told: Any) -> Any:  # noqa: ANN401
        began = trio.current_time()
        try:
            return resume(*told)
        finally:
            if began < self._until and not self._is_over():
                self._share.charge(trio.current_time() - began)
