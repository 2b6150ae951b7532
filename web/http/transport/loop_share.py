"""The share of the event loop that handling what clients send may take, so that what is being answered keeps the rest.

Everybody's tokens go through one event loop, and the model's thread waits for the interpreter whenever the loop is
busy.  Trio runs all tasks that are ready in each pass: many connections with something to handle would have as many
turns as there are of them to a stream's one.  So connections handle what they received in turns, of a bounded number of
frames or one request; the time that this takes of the loop is measured, with that of the requests until they begin to
answer; and when it was more than a share, the next turn waits, while something is being answered.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

T = TypeVar("T")

REST = 2.0
"""Seconds of rest for each second that was taken."""

CREDIT = 0.03
"""Seconds of work and rest that may be taken in advance, by who comes after a pause."""


class LoopShare:
    """Gives all connections of a server their turns, one after the other, as far as the loop's time allows."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._free_at = -math.inf  # when what was taken will be made up for
        self._answers = 0
        self._quiet = trio.Event()  # the last of them has ended

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Leave its part of the loop's time to an answer, while the scope lasts."""
        if not self._answers:
            self._quiet = trio.Event()
        self._answers += 1
        try:
            yield
        finally:
            self._answers -= 1
            if not self._answers:
                self._quiet.set()

    async def turn(self) -> None:
        """Wait for a turn, behind those who came before; where nothing is being answered, nobody rests."""
        async with self._lock:
            while self._answers and trio.current_time() < self._free_at:
                with trio.move_on_at(self._free_at):
                    await self._quiet.wait()

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
