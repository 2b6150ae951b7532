"""Responses that run without a client: one owner of their tasks, and bounds on their number, time and bytes."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import trio

from actors.core.receipts import CancelReason
from runtime.errors import ShuttingDown, Unavailable
from web.responses.output.envelope import Ending, Status, failure, internal_failure
from web.responses.output.events import ResponseEvents
from web.responses.output.writer import frame
from web.responses.stored.event_log import EventLog
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.core.generation import Event
    from actors.engine import Engine
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.errors import CedeError
    from web.responses.conversion import ParsedResponse
    from web.responses.stored.archive import Archive

logger = logging.getLogger("cede.web")

KEPT_SECONDS = 300.0
"""How long the events of a response that has ended are kept, for clients that come back to its stream."""


class BackgroundFull(Unavailable):
    """As many responses as may run in the background do."""

    code = "background_full"

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} responses run in the background already, and no more may.", retry_after=5)


@dataclass(frozen=True, slots=True)
class BackgroundBounds:
    """What responses in the background may take.

    Attributes:
        running: how many run at a time.
        timeout: seconds from the admission of one to its deadline.
        kept_bytes: events of those that have ended; of those that run each is an unread answer (`--max-answer`).
    """

    running: int
    timeout: float
    kept_bytes: int


@dataclass(eq=False)
class Run:
    """A response in the background, from its admission until its events are dropped.

    Attributes:
        parsed: the request.
        owner: who may see it.
        events: of the response.
        log: the same, encoded.
        ended: set once it is stored.
        keeping: scope of the wait in which its events are kept.
        error: why it was given up; None while it was not.
    """

    parsed: ParsedResponse
    owner: str | None
    events: ResponseEvents
    log: EventLog = field(default_factory=EventLog)
    ended: trio.Event = field(default_factory=trio.Event)
    keeping: trio.CancelScope = field(default_factory=trio.CancelScope)
    error: CedeError | None = None

    def tell(self, event: dict[str, Any]) -> None:
        """Add an event to the log."""
        self.log.append(b"".join(frame(event)))


class BackgroundResponses:
    """The responses that run in the background.  Each is a task of one nursery, which is this object's.

    Args:
        engine: serves the requests.
        archive: where they are stored, from their admission on.
        nursery: of the tasks; closed after `close`.
        bounds: see there.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """

    def __init__(
        self,
        engine: Engine,
        archive: Archive,
        nursery: trio.Nursery,
        bounds: BackgroundBounds,
        keep_alive: float,
    ) -> None:
        self._engine = engine
        self._archive = archive
        self._nursery = nursery
        self._bounds = bounds
        self._keep_alive = keep_alive
        self._runs: dict[str, Run] = {}
        self._closed = False

    async def start(self, parsed: ParsedResponse, owner: str | None) -> Run:
        """Begin a response, and return once it is admitted and stored.

        Raises:
            CedeError: it is refused, or cannot be stored.
        """
        if self._closed:
            raise ShuttingDown("the server is shutting down")
        if sum(not run.ended.is_set() for run in self._runs.values()) >= self._bounds.running:
            raise BackgroundFull(self._bounds.running)
        run = self._runs[parsed.request.id] = Run(parsed, owner, ResponseEvents(parsed.options))
        try:
            await self._nursery.start(self._run, run)
        except BaseException:
            run.ended.set()
            self._runs.pop(parsed.request.id, None)
            raise
        return run

    def find(self, response_id: str, owner: str | None) -> Run | None:
        """Return a response that runs, or whose events are kept; None if there is none of that id for that owner."""
        run = self._runs.get(response_id)
        return run if run is not None and run.owner == owner else None

    async def cancel(self, run: Run) -> None:
        """Cancel a response, unless it has ended, and return once it is stored."""
        self._engine.cancel(run.parsed.request.id, CancelReason.OPERATOR)
        await run.ended.wait()

    async def forget(self, run: Run) -> None:
        """Cancel a response, unless it has ended, and drop its events."""
        await self.cancel(run)
        run.keeping.cancel()

    def close(self) -> None:
        """Refuse new ones, and cancel those that run; each is stored before its task ends."""
        self._closed = True
        for run in self._runs.values():
            self._engine.cancel(run.parsed.request.id, CancelReason.SHUTDOWN)
            run.keeping.cancel()

    # --- the tasks ----------------------------------------------------------------------------------------------------

    async def _run(self, run: Run, task_status: trio.TaskStatus[None]) -> None:
        """Run one response to its end, and keep its events for a while."""
        request_id = run.parsed.request.id
        asked = replace(run.parsed.request, owner=run.owner, timeout=self._bounds.timeout)
        opening = self._engine.open_request(asked, disconnect_reason=lambda: CancelReason.SHUTDOWN)
        with self._engine.unread.backlog(f"response {request_id}", gathering=True) as backlog:
            async with opening as request:
                for event in run.events.opening():
                    run.tell(event)
                if saved := await self._archive.save(run.parsed, run.events.response(), run.owner, live=True):
                    await self._make(request, run, backlog, task_status)
            if not saved:
                raise StoreFailed("The response cannot be stored, as one in the background has to be.")
        with run.keeping:
            self._bound_kept()
            await trio.sleep(KEPT_SECONDS)
        self._runs.pop(request_id, None)

    async def _make(self, request: Request, run: Run, backlog: Backlog, task_status: trio.TaskStatus[None]) -> None:
        """Make a response that is admitted and stored.  However it ends, it is stored again, and its readers told."""
        try:
            task_status.started()
            await self._follow(request, run, backlog)
        except Exception as error:
            logger.error("%s failed in the background", request.id, exc_info=error)
            run.events.fail(internal_failure())
        finally:
            run.events.fail(Ending(Status.CANCELLED))  # without effect on one that has ended
            with trio.CancelScope(shield=True):
                await self._end(run)

    async def _follow(self, request: Request, run: Run, backlog: Backlog) -> None:
        """Turn the engine's events into the response's, until it has ended."""

        def on_cut(error: CedeError) -> None:
            run.error = error
            request.cancel(CancelReason.STALLED_READER)

        backlog.on_cut = on_cut
        events = aiter(request)
        while run.events.ending is None:
            with trio.move_on_after(self._keep_alive) as silence:
                event = await anext(events)
            if silence.cancelled_caught:
                run.tell(run.events.in_progress())
            else:
                self._tell(event, run)
            backlog.hold(run.log.size + len(run.events))

    def _tell(self, event: Event, run: Run) -> None:
        if run.error is not None:
            run.events.fail(failure(run.error))
            return
        for made in run.events.of(event):
            run.tell(made)

    async def _end(self, run: Run) -> None:
        """Store a response that has ended, and tell it."""
        if not await self._archive.save(run.parsed, run.events.response(), run.owner):
            run.events.stored = False
        run.tell(run.events.last())
        run.log.end()
        run.ended.set()

    def _bound_kept(self) -> None:
        """Drop the events of those that ended first, while there are too many."""
        ended = [run for run in self._runs.values() if run.ended.is_set() and not run.keeping.cancel_called]
        kept = sum(run.log.size for run in ended)
        for run in ended:
            if kept <= self._bounds.kept_bytes:
                break
            kept -= run.log.size
            run.keeping.cancel()


@asynccontextmanager
async def open_background(
    engine: Engine, archive: Archive, bounds: BackgroundBounds, keep_alive: float
) -> AsyncIterator[BackgroundResponses]:
    """Responses may run in the background while the scope lasts; at its end they are cancelled, and stored so."""
    async with trio.open_nursery() as nursery:
        background = BackgroundResponses(engine, archive, nursery, bounds, keep_alive)
        try:
            yield background
        finally:
            background.close()
