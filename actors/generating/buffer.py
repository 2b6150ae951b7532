"""The buffer between a request's actors and its reader."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Event, Failed, Finished, PromptScored, Token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from runtime.sampling.tokens import TokenLogprobs

EVENT_BYTES = 256
"""Of any event with what refers to it, beside its text."""

ALTERNATIVE_BYTES = 120
"""Of one alternative in a token's log-probabilities: a tuple of two numbers, and its place in another."""


def size_of(event: Event) -> int:
    """About how many bytes of memory an event takes."""
    match event:
        case Token():
            return EVENT_BYTES + sys.getsizeof(event.text) + _logprobs_size(event.logprobs)
        case Finished():
            return EVENT_BYTES + sys.getsizeof(event.text) + sys.getsizeof(event.vector)
        case PromptScored():
            scores = [score.logprobs for _, score in event.tokens if score is not None]
            return EVENT_BYTES * (1 + len(event.tokens)) + sum(map(_logprobs_size, scores))
        case Failed():
            return EVENT_BYTES


def _logprobs_size(logprobs: TokenLogprobs | None) -> int:
    return 0 if logprobs is None else ALTERNATIVE_BYTES * (1 + len(logprobs.top))


class EventBuffer:
    """Events in the order in which they were put.  Putting never waits (C6); what waits is accounted for.

    As a scope: its end is that of the events.

    Args:
        generations: how many there are; each puts one `Finished` or `Failed`, its last.
        backlog: fresh.  Once its reader was cut, whatever is put is dropped.
    """

    def __init__(self, generations: int, backlog: Backlog) -> None:
        self._backlog = backlog
        self._not_ended = set(range(generations))  # as far as the reader knows
        self._events: deque[Event] = deque()  # without a bound of its own: the actors never wait for the client
        self._ended = False
        self._reader = trio.lowlevel.ParkingLot()

    def __enter__(self) -> None:
        """Begin the scope."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Let no more events come: the reader is told."""
        self._ended = True
        self._reader.unpark_all()

    def put(self, event: Event) -> None:
        """Add an event, and tell the backlog, which may cut this reader or another."""
        if self._backlog.error is None:
            self._append(event)
            self._backlog.set_size(self._backlog.held + size_of(event))

    def fail(self, error: CedeError) -> None:
        """Drop what is there; each generation whose end the reader has not seen ends with `error`."""
        self._events.clear()
        for index in sorted(self._not_ended):
            self._append(Failed(index, error))

    def __aiter__(self) -> AsyncIterator[Event]:
        """Be read, event by event."""
        return self

    async def __anext__(self) -> Event:
        """The next event, once there is one.  A wait that is cut short loses none."""
        if self._events or self._ended:
            await trio.lowlevel.checkpoint()
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            await self._reader.park()
        return self._take()

    def take_nowait(self) -> Event | None:
        """The next event if it is there."""
        return self._take() if self._events else None

    def _append(self, event: Event) -> None:
        self._events.append(event)
        self._reader.unpark_all()

    def _take(self) -> Event:
        event = self._events.popleft()
        if self._backlog.error is None:
            self._backlog.set_size(self._backlog.held - size_of(event))
        if isinstance(event, Finished | Failed):
            self._not_ended.discard(event.index)
        return event
