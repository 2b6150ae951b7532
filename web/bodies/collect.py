"""Collects a request's events into one response object, under the bound on unread bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.core.receipts import CancelReason

if TYPE_CHECKING:
    from actors.core.generation import Event
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.errors import CedeError


class EventCollector(Protocol):
    """Builds the response object of one API from the engine's events.  Its length is the bytes that it holds."""

    def __len__(self) -> int:
        """Return the number of bytes that are held."""

    @property
    def failed(self) -> bool:
        """Whether a generation has failed, and the response with it."""

    def add(self, event: Event) -> None:
        """Add one event."""

    def fail(self, error: CedeError) -> None:
        """End the response with `error`, and drop what is held."""

    def result(self) -> dict[str, Any]:
        """Return the response object; raise the CedeError that the response ended with, if it did."""


async def collect(request: Request, collector: EventCollector, backlog: Backlog) -> dict[str, Any]:
    """Collect the events of a request to its end, or to the first failure, and return the response object.

    Args:
        request: open, and read by nobody else.
        collector: fresh.
        backlog: of the bytes that the collector holds.  If its reader is cut, the request is cancelled.

    Raises:
        CedeError: a generation failed, or the reader was cut.
    """

    def on_cut(error: CedeError) -> None:
        collector.fail(error)
        request.cancel(CancelReason.STALLED_READER)

    backlog.on_cut = on_cut
    async for event in request:
        collector.add(event)
        backlog.hold(len(collector))
        if collector.failed:
            request.cancel(CancelReason.FAULT)  # no use in finishing the other choices
            break
    return collector.result()
