"""A response as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.core.generation import Failed
from web.bodies.event_stream import CONTENT_TYPE, HEADERS, iter_sse, sse
from web.errors.problem import report
from web.responses.output.envelope import Status, failure, internal_failure
from web.responses.output.events import ResponseEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.core.generation import Event
    from runtime.errors import CedeError
    from web.responses.output.envelope import ResponseOptions

Json = dict[str, Any]


def frame(event: Json) -> Iterator[bytes]:
    """Encode an event of a response as a server-sent event, in fragments."""
    yield f"event: {event['type']}\n".encode()
    if "delta" in event:  # short, and the most frequent
        yield sse(event)
    else:
        yield from iter_sse(event)


class ResponseWriter:
    """Turns the engine's events into the stream of a response; an `event_stream.EventWriter`.

    The last event is written by `closing`, when the response is stored: a client who has read it can refer to it.

    Args:
        options: how to answer.
        hold: told the bytes that are held; they are those of the whole answer, for its last events repeat it.

    Attributes:
        events: of the response.
        failed: whether the end of a failed response was written; then nothing follows.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS

    def __init__(self, options: ResponseOptions, hold: Callable[[int], None] | None = None) -> None:
        self.events = ResponseEvents(options)
        self._hold = hold
        self._cut: CedeError | None = None
        self.failed = False

    @property
    def finished(self) -> bool:
        """Whether the output is whole; then only `closing` is left to write."""
        ending = self.events.ending
        return ending is not None and ending.status is not Status.FAILED

    def opening(self) -> bytes:
        """Return the beginning of the stream, which goes out before the engine has done anything."""
        return b"".join(fragment for event in self.events.opening() for fragment in frame(event))

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments, which are to be taken before the next event is written."""
        if self.failed:
            return ()
        if self._cut is not None:
            return (self.fail(self._cut),)
        if isinstance(event, Failed):
            report(event.error)
            return (self.fail(event.error),)
        return self._write(event)

    def _write(self, event: Event) -> Iterator[bytes]:
        for made in self.events.of(event):
            yield from frame(made)
        if self._hold is not None:
            self._hold(len(self.events))

    def cut(self, error: CedeError) -> None:
        """Give the reader up: the next thing that it reads is this error."""
        self._cut = error

    def fail(self, error: CedeError) -> bytes:
        """Return the end of a stream that an error breaks off."""
        self.events.fail(failure(error))
        return self._last_of_failed()

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        self.events.fail(internal_failure())
        return self._last_of_failed()

    def _last_of_failed(self) -> bytes:
        self.failed = True
        return b"".join(frame(self.events.last()))

    def closing(self) -> Iterator[bytes]:
        """Yield the last event, which has the whole response."""
        return frame(self.events.last())

    def keep_alive(self) -> bytes:
        """Return an event: some clients do not count comments as a sign of life."""
        return b"".join(frame(self.events.in_progress()))
