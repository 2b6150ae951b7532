"""Responses that are streamed as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import trio

from actors.core.receipts import CancelReason
from web.bodies.json_encoding import dumps, iter_json
from web.bodies.page_buffer import PageBuffer
from web.bodies.responses import StreamBody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from actors.core.generation import Event
    from actors.request import Request

logger = logging.getLogger("cede.web")

HEADERS = {
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # asks nginx to pass each event on at once
}
CONTENT_TYPE = "text/event-stream; charset=utf-8"

MAX_EVENTS = 256
"""Engine events that are taken before other tasks run.  Those whose text is held back make no bytes to count."""


def sse(value: object) -> bytes:
    """Encode `value` as the data of one server-sent event."""
    return f"data: {dumps(value)}\n\n".encode()


def iter_sse(value: object) -> Iterator[bytes]:
    """Encode `value` as the data of one server-sent event, in fragments, for one that may be long."""
    yield b"data: "
    yield from iter_json(value)
    yield b"\n\n"


class EventWriter(Protocol):
    """Turns the engine's events into the stream of one API.  Pure: bytes out for events in."""

    @property
    def content_type(self) -> str:
        """The response's."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's other headers."""

    @property
    def finished(self) -> bool:
        """Return whether every choice has finished; then only `closing` is left to write."""

    @property
    def failed(self) -> bool:
        """Return whether an error was written; then nothing follows."""

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments, which are to be taken before the next event is written."""

    def closing(self) -> bytes | Iterable[bytes]:
        """Return the end of a stream whose choices have all finished; in fragments where it may be long."""

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""

    def keep_alive(self) -> bytes:
        """Return what says that the stream is alive; it may go out at any time after `write`."""


class EventStream(StreamBody):
    """The body of a streaming response.

    It does not own the request, which is in the exit stack of the HTTP request.  But it leaves the request before it
    writes the end of the stream, so that a client who has read the end finds the slot free and can no longer cancel
    anything.

    What the engine has buffered goes out in writes of a bounded size, and other tasks run between two writes.  After
    `keep_alive` seconds of silence (in the queue, in a long prefill) the writer says something, so that
    nobody takes the connection for dead.

    Args:
        request: open, and read by nobody else.
        writer: fresh.
        keep_alive: seconds.
        leave: leaves the request, and does what has to be done before the end of the stream is written.
        write_bytes: of one write.
        opening: bytes to begin with, before anything has happened.
    """

    def __init__(
        self,
        request: Request,
        writer: EventWriter,
        keep_alive: float,
        leave: Callable[[], Awaitable[None]],
        write_bytes: int,
        opening: bytes = b"",
    ) -> None:
        self._request = request
        self._events = aiter(request)
        self._writer = writer
        self._keep_alive = keep_alive
        self._leave = leave
        self._write_bytes = write_bytes
        self._fragments: Iterator[bytes] = iter(())  # the rest of the event that was taken last
        self._unsent = PageBuffer(write_bytes)
        self._unsent.write(opening)
        self._closing = False  # the fragments are those of the end
        self._ended = False  # nothing follows what is unsent

    async def __anext__(self) -> bytes:
        """Return what to write next; a sign of life if nothing comes in time."""
        if self._ended and not self._unsent:
            raise StopAsyncIteration
        try:
            await self._make()
            if self._writer.finished and not (self._unsent or self._ended):  # the last event itself showed nothing
                await self._make()
        except Exception as error:  # the headers are out, so an error object in the stream is all that is left
            logger.error("a stream failed", exc_info=error)
            self._ended = True
            self._unsent.write(self._writer.fail_internally())
        if self._ended and not self._unsent:  # the last fragment went out with the write before
            raise StopAsyncIteration
        return self._unsent.take() or self._writer.keep_alive()

    async def _make(self) -> None:
        """Make what to write next, unless nothing comes in time."""
        if self._ended:
            await trio.lowlevel.checkpoint()
        elif self._fill():
            await trio.lowlevel.checkpoint()  # others run between two writes to a reader that lags
        elif self._writer.finished:
            await self._close()
            self._ended = not self._fill()
        else:
            with trio.move_on_after(self._keep_alive):
                await self._wait()
        if self._writer.failed and not self._ended:
            self._ended = True
            self._request.cancel(CancelReason.FAULT)  # no use in finishing the other choices

    async def _wait(self) -> None:
        """Wait until there is something to write, or nothing more to wait for.  A cancellation loses nothing."""
        filled = False
        while not (filled or self._writer.finished):
            self._fragments = iter(self._writer.write(await anext(self._events)))
            filled = self._fill()

    async def _close(self) -> None:
        if not self._closing:
            self._closing = True
            await self._leave()
            end = self._writer.closing()
            self._fragments = iter((end,) if isinstance(end, bytes) else end)

    def _fill(self) -> bool:
        """Make bytes for one write from what is there, and return whether there are any."""
        taken = 0
        while len(self._unsent) < self._write_bytes:
            if (fragment := next(self._fragments, None)) is not None:
                self._unsent.write(fragment)
            elif taken < MAX_EVENTS and (event := self._request.event_nowait()) is not None:
                self._fragments = iter(self._writer.write(event))
                taken += 1
            else:
                break
        return bool(self._unsent)
