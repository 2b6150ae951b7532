"""Makers of the answers of requests that may outlive their clients, of whatever API: streams, and whole ones."""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.errors import CedeError
from web.bodies.collect import collect
from web.bodies.responses import encode_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from actors.generating.unread import Backlog
    from web.bodies.collect import EventCollector
    from web.bodies.event_stream import EventWriter
    from web.bodies.json_encoding import JsonObject
    from web.storage.detached.disconnects import Followed
    from web.storage.detached.event_log import EventLog

logger = logging.getLogger("cede.web")


class StreamMaker:
    """Makes a stream; a `runs.Maker`.

    Args:
        writer: of the API's stream; fresh.
        keep_alive: seconds of silence after which an event says that the stream is alive.
        keep: called when all is generated, before the end is written; None to do nothing then.
    """

    streamed = True

    def __init__(
        self, writer: EventWriter, keep_alive: float, keep: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._writer = writer
        self._keep_alive = keep_alive
        self._keep = keep
        self._failed = False

    @property
    def content_type(self) -> str:
        """The stream's."""
        return self._writer.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """The stream's."""
        return self._writer.headers

    async def begin(self, log: EventLog) -> None:
        """Do nothing."""

    async def follow(self, request: Followed, log: EventLog, backlog: Backlog) -> None:
        """Write the events, until all generations have finished, or one has failed."""
        backlog.on_cut = request.give_up
        writer, events = self._writer, aiter(request)
        while not (writer.finished or writer.failed):
            with trio.move_on_after(self._keep_alive) as silence:
                event = await anext(events)
            if silence.cancelled_caught:
                log.write(writer.keep_alive())
            else:
                cut = backlog.error
                log.write(b"".join(writer.write(event if cut is None else Failed(event.index, cut))))
            backlog.set_size(log.held)
        if writer.failed:
            request.cancel(CancelReason.FAULT)  # no use in finishing the other choices

    def fail(self) -> None:
        """Let the stream end with an error."""
        self._failed = True

    async def end(self, log: EventLog) -> None:
        """Write the end of the stream."""
        try:
            if self._writer.finished and not (self._failed or self._writer.failed):
                if self._keep is not None:
                    await self._keep()
                closing = self._writer.closing()
                log.write(closing if isinstance(closing, bytes) else b"".join(closing))
            elif not self._writer.failed:
                log.write(self._writer.fail_internally())
        except Exception as error:  # it would end all others, and the server
            logger.error("a stream failed", exc_info=error)
            log.write(self._writer.fail_internally())


class WholeMaker:
    """Makes an answer that is sent whole; a `runs.Maker`.

    Args:
        collector: returns a fresh builder of the answer.
        finish: does what is to be done when all is generated, and returns the answer's bytes.
    """

    streamed = False
    content_type = "application/json"
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, collector: Callable[[], EventCollector], finish: Callable[[JsonObject], Awaitable[bytes]] = encode_json
    ) -> None:
        self._collector = collector
        self._finish = finish
        self._answer: JsonObject | None = None
        self._error: CedeError | None = None

    async def begin(self, log: EventLog) -> None:
        """Do nothing."""

    async def follow(self, request: Followed, log: EventLog, backlog: Backlog) -> None:
        """Gather the events."""
        try:
            self._answer = await collect(request, self._collector, backlog)
        except CedeError as error:
            self._error = error.with_traceback(None)  # which would keep all that was there

    def fail(self) -> None:
        """Let there be no answer."""
        self._answer = None

    async def end(self, log: EventLog) -> CedeError | None:
        """Write the answer; return the error that it ended with."""
        if self._answer is None:
            return self._error or CedeError("internal error; the log says more")
        try:
            log.append(await self._finish(self._answer))
        except Exception as error:  # it would end all others, and the server
            logger.error("an answer failed", exc_info=error)
            return CedeError("internal error; the log says more")
        return None
