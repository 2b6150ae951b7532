"""Responses that run without a client: one owner of their tasks, and bounds on their number, time and bytes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import trio

from actors.core.receipts import CancelReason
from runtime.errors import ShuttingDown, Unavailable
from web.responses.stored.event_log import EventLog
from web.responses.stored.making import Making
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import ExitStack

    from actors.engine import Engine
    from web.responses.conversion import ParsedResponse
    from web.responses.stored.archive import Archive
    from web.responses.stored.conversations import Turn

Json = dict[str, Any]

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
    """A response in the background, from its admission until its events are dropped: what others may see of it.

    Attributes:
        id: of the response.
        owner: who may see it.
        log: its events, encoded.
        ended: set once it is stored, and nothing of it runs.
        keeping: scope of the wait in which its events are kept.
    """

    id: str
    owner: str | None
    log: EventLog = field(default_factory=EventLog)
    ended: trio.Event = field(default_factory=trio.Event)
    keeping: trio.CancelScope = field(default_factory=trio.CancelScope)


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
        self._running: dict[str, Run] = {}
        self._kept: dict[str, Run] = {}  # those that have ended, in the order of their ends
        self._closed = False

    async def start(self, parsed: ParsedResponse, place: ExitStack, turn: Turn | None = None) -> tuple[Run, Json]:
        """Begin a response, and return it, and the response object, once it is admitted and stored.

        Args:
            parsed: the request, as its client may ask it.
            place: what the client's key has in use for it.  If the response begins, this is emptied, and what was in
                it is left when the response has ended.
            turn: of its conversation, which is to be in `place`, too; None where it has none.

        Raises:
            CedeError: it is refused, or cannot be stored.
        """
        if self._closed:
            raise ShuttingDown("the server is shutting down")
        if len(self._running) >= self._bounds.running:
            raise BackgroundFull(self._bounds.running)
        run = self._running[parsed.request.id] = Run(parsed.request.id, parsed.request.owner)
        response: Json = await self._nursery.start(self._make, run, parsed, place, turn)
        return run, response

    def find(self, response_id: str, owner: str | None) -> Run | None:
        """Return a response that runs, or whose events are kept; None if there is none of that id for that owner."""
        run = self._running.get(response_id) or self._kept.get(response_id)
        return run if run is not None and run.owner == owner else None

    async def cancel(self, run: Run) -> None:
        """Cancel a response, unless it has ended, and return once it is stored."""
        self._engine.cancel(run.id, CancelReason.OPERATOR)
        await run.ended.wait()

    async def forget(self, run: Run) -> None:
        """Cancel a response, unless it has ended, and drop its events."""
        await self.cancel(run)
        run.keeping.cancel()

    def close(self) -> None:
        """Refuse new ones, and cancel those that run; each is stored before its task ends."""
        self._closed = True
        for run in self._running.values():
            self._engine.cancel(run.id, CancelReason.SHUTDOWN)
        for run in (*self._running.values(), *self._kept.values()):
            run.keeping.cancel()

    # --- the tasks ----------------------------------------------------------------------------------------------------

    async def _make(
        self,
        run: Run,
        parsed: ParsedResponse,
        place: ExitStack,
        turn: Turn | None,
        task_status: trio.TaskStatus[Json],
    ) -> None:
        """Run one response to its end; its events are kept by another task, so that all else of it is gone."""
        making = Making(parsed, run.log, self._archive, self._keep_alive, turn)
        asked = replace(parsed.request, timeout=self._bounds.timeout)
        opening = self._engine.open_request(asked, disconnect_reason=lambda: CancelReason.SHUTDOWN)
        try:
            backlog = self._engine.unread.backlog(f"response {run.id}", gathering=True, request_id=run.id)
            with place.pop_all(), backlog:
                async with opening as request:
                    if stored := await making.begin():
                        await making.finish(request, backlog, task_status)
                if not stored:
                    raise StoreFailed("The response cannot be stored, as one in the background has to be.")
        finally:
            del self._running[run.id]
            run.ended.set()
        self._kept[run.id] = run
        self._bound_kept()
        self._nursery.start_soon(self._keep, run)

    async def _keep(self, run: Run) -> None:
        """Keep the events of one that has ended for a while."""
        with run.keeping:
            await trio.sleep(KEPT_SECONDS)
        self._kept.pop(run.id, None)

    def _bound_kept(self) -> None:
        """Drop the events of those that ended first, while there are too many."""
        kept = [run for run in self._kept.values() if not run.keeping.cancel_called]
        size = sum(run.log.size for run in kept)
        for run in kept:
            if size <= self._bounds.kept_bytes:
                break
            size -= run.log.size
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
