"""Collects a request's events into one response object, under the bound on unread bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.core.generation import Failed
from actors.core.receipts import CancelReason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from actors.core.generation import Event, Progress
    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.bodies.json_encoding import JsonObject


class EventCollector(Protocol):
    """Builds the response object of one API from the engine's events.  Its length is the bytes that it holds."""

    def __len__(self) -> int:
        """Return the number of bytes that are held."""

    def add(self, event: Progress) -> None:
        """Add one event."""

    def result(self) -> JsonObject:
        """Return the response object, once all generations have finished; its long parts may be `SelfEncoding`."""


class Readable(Protocol):
    """A request of the engine's, for the one who reads it."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return the events as they come."""

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the request."""


async def collect(request: Readable, begin: Callable[[], EventCollector], backlog: Backlog) -> JsonObject:
    """Collect the events of a request to its end, or to the first failure, and return the response object.

    Args:
        request: open, and read by nobody else.
        begin: returns a fresh collector; nobody else keeps it, so that what it holds goes with a failure.
        backlog: of the bytes that the collector holds.  If its reader is cut, the request is cancelled.

    Raises:
        CedeError: a generation failed, or the reader was cut.
    """
    collector = begin()
    error: CedeError | None = None

    def on_cut(cut: CedeError) -> None:
        nonlocal error
        error = cut
        request.cancel(CancelReason.STALLED_READER)

    backlog.on_cut = on_cut
    async for event in request:
        if isinstance(event, Failed):
            error = error or event.error
        else:
            collector.add(event)
            backlog.set_size(len(collector))
        if error is not None:
            request.cancel(CancelReason.FAULT)  # no use in finishing the other choices
            break
    if error is not None:
        del collector  # which the traceback would keep
        raise error
    return collector.result()
