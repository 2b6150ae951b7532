"""Makes one response without a client: the engine's events become its log, and its end is stored."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from actors.core.receipts import CancelReason
from web.responses.output.envelope import Ending, Status, failure, internal_failure
from web.responses.output.events import ResponseEvents
from web.responses.output.writer import frame
from web.responses.stored.ending import store_ended

if TYPE_CHECKING:
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.errors import CedeError
    from web.responses.conversion import ParsedResponse
    from web.responses.stored.archive import Archive
    from web.responses.stored.conversations import Turn
    from web.responses.stored.event_log import EventLog

logger = logging.getLogger("cede.web")

Json = dict[str, Any]


class Making:
    """A response that is being made; it lives for as long as that takes.

    Args:
        parsed: the request.
        log: gets the events.
        archive: where the response is stored.
        keep_alive: seconds of silence after which an event says that it is alive.
        turn: of its conversation; None where it has none.
    """

    def __init__(
        self, parsed: ParsedResponse, log: EventLog, archive: Archive, keep_alive: float, turn: Turn | None = None
    ) -> None:
        self._parsed = parsed
        self._log = log
        self._archive = archive
        self._keep_alive = keep_alive
        self._turn = turn
        self._events = ResponseEvents(parsed.options)

    async def begin(self) -> bool:
        """Tell that the request is admitted, and store the response as one that has begun; tell whether it could be."""
        for event in self._events.opening():
            self._tell(event)
        return await self._archive.save(self._parsed, self._events.response(), live=True)

    async def finish(self, request: Request, backlog: Backlog, task_status: trio.TaskStatus[Json]) -> None:
        """Make the response.  However it ends, it is stored again, and its readers told.

        Args:
            request: open, and read by nobody else.
            backlog: holds the bytes of the log.
            task_status: is told the response object as it is now.
        """
        try:
            task_status.started(self._events.response())
            await self._follow(request, backlog)
        except Exception as error:
            logger.error("%s failed in the background", request.id, exc_info=error)
            self._events.fail(internal_failure())
        finally:
            self._events.fail(Ending(Status.CANCELLED))  # without effect on one that has ended
            with trio.CancelScope(shield=True):
                self._events.outcome = await self._store_end(request)
            self._tell(self._events.last())
            self._log.end()

    async def _follow(self, request: Request, backlog: Backlog) -> None:
        """Turn the engine's events into the response's, until it has ended."""
        cut: CedeError | None = None

        def on_cut(error: CedeError) -> None:
            nonlocal cut
            cut = error
            request.cancel(CancelReason.STALLED_READER)

        backlog.on_cut = on_cut
        events = aiter(request)
        while self._events.ending is None:
            with trio.move_on_after(self._keep_alive) as silence:
                event = await anext(events)
            if silence.cancelled_caught:
                self._tell(self._events.in_progress())
            elif cut is not None:
                self._events.fail(failure(cut))
            else:
                for made in self._events.of(event):
                    self._tell(made)
            backlog.hold(self._log.size + len(self._events))

    def _tell(self, event: Json) -> None:
        self._log.append(b"".join(frame(event)))

    async def _store_end(self, request: Request) -> Json:
        try:
            return await store_ended(self._archive, self._parsed, self._events.response(), self._turn)
        except Exception as error:  # it would end all others, and the server
            logger.error("%s could not be stored", request.id, exc_info=error)
            return {"store": False}
