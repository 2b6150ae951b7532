"""The requests that may outlive their clients: one owner of their tasks, and bounds on their number, time and bytes."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

from actors.core.receipts import CancelReason
from runtime.errors import RequestError, ShuttingDown, Unavailable
from web.storage.detached.disconnects import Followed, watch_disconnects
from web.storage.detached.event_log import EventLog
from web.storage.detached.run import Changes, KeptRuns, Run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from contextlib import ExitStack

    from actors.control import Control
    from actors.core.generation import GenerationRequest
    from actors.engine import Engine
    from actors.generating.unread import Backlog
    from actors.request import Request
    from runtime.errors import CedeError
    from web.process.access.api_keys import ApiKey

logger = logging.getLogger("cede.web")

KEPT_SECONDS = 300.0
"""How long an answer is kept for clients that come back, unless its request says otherwise."""

SSE = "text/event-stream"


class RunsFull(Unavailable):
    """As many requests as may outlive their clients run."""

    code = "background_full"

    def __init__(self, most: int) -> None:
        message = f"{most} requests run that may go on without a client, and no more may."
        super().__init__(message, retry_after=5)


@dataclass(frozen=True, slots=True)
class RunBounds:
    """Bounds of requests that go on without a client.

    Attributes:
        running: how many run at a time, whether they have a client now or not.
        timeout: seconds for which one goes on without a reader.
        kept_bytes: that those take which have ended; the answer of one that runs is unread (`--max-answer`).
        tokens: that one generates without a reader.
        grace: the longest `grace_s` that may be asked for, where it is the client's patience and not a bound.
        keep: the longest `keep_s`.
    """

    running: int
    timeout: float
    kept_bytes: int
    tokens: int = 65536
    grace: float = 300.0
    keep: float = 3600.0

    def check(self, control: Control) -> None:
        """Raise RequestError if a request asks for more than these."""
        if control.keep_s is not None and not control.outlives_client:
            raise RequestError(
                "'cede.keep_s' needs 'cede.on_disconnect' to be 'detach' or 'finish_prefill', or 'cede.grace_s'.",
                param="cede.keep_s",
            )
        most = self.timeout if control.on_disconnect == "detach" else self.grace
        for name, value, bound in (("grace_s", control.grace_s, most), ("keep_s", control.keep_s, self.keep)):
            if value is not None and value > bound:
                raise RequestError(f"'cede.{name}' is at most {bound:g} on this server.", param=f"cede.{name}")


class Maker(Protocol):
    """Makes the answer of one request, in the words of its API.  One task calls it."""

    @property
    def streamed(self) -> bool:
        """Return whether the answer is a stream of events."""

    @property
    def content_type(self) -> str:
        """The answer's."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's other headers."""

    async def begin(self, log: EventLog) -> CedeError | None:
        """Do what is to be done when the request is admitted; return why it cannot be served, if it cannot."""

    async def follow(self, request: Followed, log: EventLog, backlog: Backlog) -> None:
        """Turn the engine's events into the answer's, until it ends; tell the backlog what the log holds."""

    def fail(self) -> None:
        """Let the answer end with an error of the server's own, unless it is complete."""

    async def end(self, log: EventLog) -> CedeError | None:
        """Write the end, when the request was left; return what it ended with in place of an answer.  Shielded."""


@dataclass(frozen=True, slots=True)
class DetachableStatistics:
    """Requests that may outlive their clients.

    Attributes:
        detached: of those that run; nobody reads them.
        readers: of those that run, and of those that are kept.
        kept: answers of those that have ended.
        attaches: since the start: readers that came to one that ran, or had ended.
    """

    running: int
    detached: int
    readers: int
    kept: int
    kept_bytes: int
    attaches: int = 0


class Runs:
    """The requests that may outlive their clients.  Each is a task of one nursery, which is this object's.

    Args:
        engine: serves them.
        nursery: of the tasks; closed after `close`.
        bounds: see there.

    Attributes:
        bounds: the same.
        changes: counts what happens to them, and tells it to whoever watches.
    """

    def __init__(self, engine: Engine, nursery: trio.Nursery, bounds: RunBounds) -> None:
        self.bounds = bounds
        self.changes = Changes()
        self._engine = engine
        self._nursery = nursery
        self._running: dict[str, Run] = {}
        self._kept = KeptRuns(bounds.kept_bytes, self.changes)
        self._closed = False

    async def start(
        self, asked: GenerationRequest, maker: Maker, place: ExitStack, reader: ExitStack | None = None
    ) -> Run:
        """Begin a request, and return it once it is admitted.

        Args:
            asked: as its client may ask it.
            maker: of its answer; fresh.
            place: what the client's key has in use for it.  If the request begins, this is emptied, and what was in it
                is left when the request has ended.
            reader: the first reader's scope, which this makes one; None where the request begins without a client.

        Raises:
            CedeError: it is refused.
        """
        if self._closed:
            raise ShuttingDown("the server is shutting down")
        self.bounds.check(asked.control)
        if len(self._running) >= self.bounds.running:
            raise RunsFull(self.bounds.running)
        numbered = maker.content_type.startswith(SSE)
        run = self._running[asked.id] = Run(
            asked.id,
            asked.owner,
            EventLog(b"\n\n" if numbered else b"\n", numbered=numbered),
            maker.streamed,
            maker.content_type,
            maker.headers,
            asked.control,
            KEPT_SECONDS if asked.control.keep_s is None else asked.control.keep_s,
            changes=self.changes,
        )
        if reader is not None:
            reader.enter_context(run.reading(begins=True))
        await self._nursery.start(self._run, run, asked, maker, place)
        return run

    def find(self, request_id: str, owner: str | None) -> Run | None:
        """Return a request that runs, or whose answer is kept; None if there is none of that id for that owner."""
        run = self._running.get(request_id) or self._kept.get(request_id)
        return run if run is not None and run.owner == owner else None

    def __iter__(self) -> Iterator[Run]:
        """Yield those that run, and then those that are kept, each kind in the order of their beginnings or ends."""
        yield from list(self._running.values())
        yield from self._kept

    def statistics(self) -> DetachableStatistics:
        """Return what is there now."""
        running = self._running.values()
        return DetachableStatistics(
            len(running),
            sum(not run.readers for run in running),
            sum(run.readers for run in self),
            len(self._kept),
            self._kept.nbytes,
            self.changes.attaches,
        )

    async def cancel(self, run: Run) -> None:
        """Cancel a request, unless it has ended, and return once its answer is complete."""
        self._engine.cancel(run.id, CancelReason.OPERATOR)
        await run.ended.wait()

    async def forget(self, run: Run) -> None:
        """Cancel a request, unless it has ended, and drop its answer."""
        await self.cancel(run)
        self._kept.drop(run)

    def drop(self, request_id: str, key: ApiKey | None) -> bool:
        """Drop the answer of a request that has ended, if it is for the key to cancel; return whether there is one."""
        run = self._kept.get(request_id)
        if run is None or not (key is None or key.may_see(run.owner)):
            return False
        self._kept.drop(run)
        return True

    def close(self) -> None:
        """Refuse new ones, and cancel those that run; the answer of each is complete before its task ends."""
        self._closed = True
        for run in self._running.values():
            self._engine.cancel(run.id, CancelReason.SHUTDOWN)
        for run in self._kept:
            self._kept.drop(run)

    async def drop_in_time(self) -> None:
        """Drop each answer when its time is over; ends by being cancelled."""
        await self._kept.drop_in_time()

    # --- the tasks ----------------------------------------------------------------------------------------------------

    async def _run(
        self,
        run: Run,
        asked: GenerationRequest,
        maker: Maker,
        place: ExitStack,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Run one request to its end, and have its answer kept."""
        refusal: CedeError | None = None
        try:
            backlog = self._engine.unread.backlog(f"answer of {run.id}", gathering=True, request_id=run.id)
            with place.pop_all(), backlog:
                opening = self._engine.open_request(asked, disconnect_reason=lambda: CancelReason.SHUTDOWN)
                begun = False
                try:
                    async with opening as request:
                        refusal = await maker.begin(run.log)
                        begun = refusal is None
                        if begun:
                            task_status.started()
                            await self._follow(run, request, maker, backlog)
                finally:
                    if begun:
                        with trio.CancelScope(shield=True):
                            run.error = await maker.end(run.log)
                if refusal is not None:
                    raise refusal
        finally:
            del self._running[run.id]
            run.log.end()
            run.ended.set()
        if not self._closed:
            self._kept.keep(run)

    async def _follow(self, run: Run, request: Request, maker: Maker, backlog: Backlog) -> None:
        async with trio.open_nursery() as nursery:
            if run.control.outlives_client:
                nursery.start_soon(watch_disconnects, run, request, self.bounds.timeout)
            try:
                await maker.follow(Followed(run, request, self.bounds.tokens), run.log, backlog)
            except Exception as error:  # it would end all others, and the server
                logger.error("%s failed without its client", run.id, exc_info=error)
                request.cancel(CancelReason.FAULT)
                maker.fail()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_runs(engine: Engine, bounds: RunBounds) -> AsyncIterator[Runs]:
    """Requests may outlive their clients while the scope lasts; at its end they are cancelled."""
    async with trio.open_nursery() as keeping:
        async with trio.open_nursery() as nursery:
            runs = Runs(engine, nursery, bounds)
            keeping.start_soon(runs.drop_in_time)
            try:
                yield runs
            finally:
                runs.close()
        keeping.cancel_scope.cancel()
