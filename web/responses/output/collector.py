"""A response that is sent whole: the same events as a stream's, of which only the last state is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from web.responses.output.events import ResponseEvents

if TYPE_CHECKING:
    from actors.core.generation import Progress
    from web.responses.output.envelope import ResponseOptions


class ResponseCollector:
    """Builds one response; a `collect.EventCollector`.

    Args:
        options: how to answer.
    """

    def __init__(self, options: ResponseOptions) -> None:
        self._events = ResponseEvents(options)

    def __len__(self) -> int:
        """Return the number of bytes that are held, about."""
        return len(self._events)

    def add(self, event: Progress) -> None:
        """Add one event."""
        for _ in self._events.of(event):
            pass

    def result(self) -> dict[str, Any]:
        """Return the response object, whose long parts are `SelfEncoding`."""
        return self._events.response()
