"""A response that is sent whole: the same events as a stream's, of which only the last state is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.core.generation import Failed
from web.responses.output.envelope import failure
from web.responses.output.events import ResponseEvents

if TYPE_CHECKING:
    from actors.core.generation import Event
    from runtime.errors import CedeError
    from web.responses.output.envelope import ResponseOptions


class ResponseCollector:
    """Builds one response; a `collect.EventCollector`.

    Args:
        options: how to answer.
    """

    def __init__(self, options: ResponseOptions) -> None:
        self._options = options
        self._events = ResponseEvents(options)
        self._error: CedeError | None = None

    def __len__(self) -> int:
        """Return the number of bytes that are held, about."""
        return len(self._events)

    @property
    def failed(self) -> bool:
        """Whether the response has failed."""
        return self._error is not None

    def add(self, event: Event) -> None:
        """Add one event."""
        if self.failed:
            return
        if isinstance(event, Failed):
            self.fail(event.error)
            return
        for _ in self._events.of(event):
            pass

    def fail(self, error: CedeError) -> None:
        """End the response with `error`, and drop what is held."""
        self._error = self._error or error
        self._events = ResponseEvents(self._options)
        self._events.fail(failure(error))

    def result(self) -> dict[str, Any]:
        """Return the response object, whose long parts are `SelfEncoding`.

        Raises:
            CedeError: the response ended with it.
        """
        if self._error is not None:
            raise self._error
        return self._events.response()
