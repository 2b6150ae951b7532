"""The share of the event loop that handling what clients send may take, so that what is being answered keeps the rest.

Everybody's tokens go through one event loop, and the model's thread waits for the interpreter while the loop is busy.
Trio runs all tasks that are ready in each pass: connections with something to handle would have as many turns as there
are of them to a stream's one.  So connections handle what they received in turns, of a bounded number of frames or
one request; the time that this takes of the loop is measured, with that of the requests until they have answered or
stream; and when it was more than a share, the next turn waits.
"""

from __future__ import annotations

import math
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Hashable

T = TypeVar("T")

REST = 3.0
"""Seconds of rest for each second that was taken."""

YOUNG = 0.05
"""Seconds from which on a request is one that the others are to leave room for: it waits for the model, or streams."""

CREDIT = 0.03
"""Seconds of work and rest that may be taken in advance, by who comes after a pause."""


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
            while trio.current_time() < self._free_at and self._is_anyone_answered():  # noqa: ASYNC110  # not polled
                await trio.sleep_until(self._free_at)

    def _is_anyone_answered(self) -> bool:
        return trio.current_time() - next(iter(self._begun.values()), math.inf) >= YOUNG

    def charge(self, seconds: float) -> None:
        """Count the seconds until now as taken."""
        earliest = trio.current_time() - seconds - CREDIT
        self._free_at = max(self._free_at, earliest) + (1 + REST) * seconds

    @coroutine
    def charged(
        self, task: Coroutine[Any, Any, T], is_over: Callable[[], bool] = lambda: False
    ) -> Generator[Any, Any, T]:
        """Run a coroutine; what its steps take of the loop counts as taken, until `is_over`."""
        resume: Callable[[Any], Any] = task.send
        sent: Any = None
        while True:
            began = trio.current_time()
            try:
                trap = resume(sent)
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                if not is_over():
                    self.charge(trio.current_time() - began)
            try:
                resume, sent = task.send, (yield trap)
            except BaseException as error:  # goes on in the coroutine
                resume, sent = task.throw, error
