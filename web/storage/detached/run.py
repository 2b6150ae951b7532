"""One request that may outlive its client, as others see it, and who reads it."""

from __future__ import annotations

import logging
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from actors.control import NO_CONTROL, Control, OnDisconnect
from web.storage.detached.event_log import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runtime.errors import CedeError

logger = logging.getLogger("cede.web")


Change: TypeAlias = Literal["attached", "detached", "kept", "dropped"]
"""A reader came after the beginning; the last one left; the answer is complete, and kept; it is there no more."""


@dataclass(frozen=True, slots=True)
class DetachableRequest:
    """A request that may outlive its client, or has.

    Attributes:
        stream: whether it is read at `/stream`; else its answer is at `/result`.
        attaches: readers that came after its beginning.
        detached_at: when its last reader left; None while it has one.
        unread_tokens: that were generated since then.
        events, bytes: of its answer, so far.
        kept_until: None while it runs.
        owner: the name of the API key that asked.
    """

    id: str
    status: Literal["in_progress", "ended"]
    stream: bool
    on_disconnect: OnDisconnect
    readers: int
    attaches: int
    detached_at: float | None
    unread_tokens: int
    events: int
    bytes: int
    kept_until: float | None
    owner: str | None


@dataclass(eq=False)
class Changes:
    """Changes of the requests that may outlive their clients, for whoever counts or watches.

    Attributes:
        attaches: readers that came to one after its beginning, so far.
    """

    attaches: int = 0
    _tell: Callable[[Change, DetachableRequest], None] | None = None

    @contextmanager
    def told_to(self, tell: Callable[[Change, DetachableRequest], None]) -> Iterator[None]:
        """Tell somebody of each change while the scope lasts."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    def happened(self, change: Change, run: Run) -> None:
        """Count a change, and tell it."""
        self.attaches += change == "attached"
        if self._tell is not None:
            self._tell(change, run.status())


RUN_BYTES = 2560
"""What is kept of a request beside the events of its answer: this object with what belongs to it, its id, and what its
client said of its fate (`tests/unit/web/storage/detached/test_run_kept.py` looks)."""


@dataclass(eq=False, slots=True)
class Run:
    """A request from its admission until its answer is dropped.

    Attributes:
        id: of the request.
        owner: the name of the API key that asked, which alone may read it; None where there are no keys.
        log: the events of its answer, encoded; of one that is sent whole, the answer alone.
        streamed: whether its answer is a stream.
        content_type, headers: of the answer.
        control: what its client says of its fate.
        keep_seconds: how long the log is kept when the request has ended.
        error: what it ended with in place of an answer that is sent whole.
        ended: set once its answer is complete, and nothing of it runs.
        changes: is told what happens to it.
        readers: how many read it now.
        attaches: how many came after its beginning.
        unread_tokens: that were generated since the last of them left.
        detached_at: seconds since the epoch at which the last left; None while somebody reads, or nobody ever did.
        kept_until: seconds since the epoch; None while it runs.
        over_at: the same on Trio's clock; never while it runs.
    """

    id: str
    owner: str | None
    log: EventLog = field(default_factory=EventLog)
    streamed: bool = True
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    control: Control = NO_CONTROL
    keep_seconds: float = 0.0
    error: CedeError | None = None
    ended: trio.Event = field(default_factory=trio.Event)
    changes: Changes = field(default_factory=Changes)
    readers: int = 0
    attaches: int = 0
    unread_tokens: int = 0
    detached_at: float | None = None
    kept_until: float | None = None
    over_at: float = math.inf
    _readers_changed: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)

    @property
    def held(self) -> int:
        """Bytes that it takes."""
        return RUN_BYTES + self.log.held

    def keep_until(self, now: float) -> None:
        """Note when its time is over, which begins `now`, on Trio's clock."""
        self.over_at = now + self.keep_seconds
        self.kept_until = time.time() + self.keep_seconds

    def status(self) -> DetachableRequest:
        """Return it as a frozen snapshot."""
        return DetachableRequest(
            id=self.id,
            status="ended" if self.ended.is_set() else "in_progress",
            stream=self.streamed,
            on_disconnect=self.control.on_disconnect,
            readers=self.readers,
            attaches=self.attaches,
            detached_at=self.detached_at,
            unread_tokens=self.unread_tokens,
            events=len(self.log),
            bytes=self.log.size,
            kept_until=self.kept_until,
            owner=self.owner,
        )

    @contextmanager
    def reading(self, *, begins: bool = False) -> Iterator[None]:
        """Be one of its readers while the scope lasts, however that ends; `begins` says that nobody was before."""
        if self.detached_at is not None and not self.ended.is_set():
            logger.info("%s: attached again", self.id, extra={"request_id": self.id})
        self.readers += 1
        self.unread_tokens = 0
        self.detached_at = None
        self._readers_changed.unpark_all()
        if not begins:
            self.attaches += 1
            self.changes.happened("attached", self)
        try:
            yield
        finally:
            self.readers -= 1
            if not self.readers:
                self.detached_at = time.time()
                self.changes.happened("detached", self)
            self._readers_changed.unpark_all()

    async def deserted(self) -> None:
        """Return once nobody reads it."""
        while self.readers:
            await self._readers_changed.park()

    async def attended(self) -> None:
        """Return once somebody reads it."""
        while not self.readers:
            await self._readers_changed.park()


class KeptRuns:
    """Requests that have ended, in the order of their ends.  Those that ended first make room.

    One task waits for the times of all: a task for each would hold the context of the client that asked, which is more
    than most answers are.

    Args:
        most: bytes, as `Run.held` counts them.
        changes: is told what is kept and dropped.

    Attributes:
        nbytes: of all of them.
    """

    def __init__(self, most: int, changes: Changes) -> None:
        self.nbytes = 0
        self._most = most
        self._changes = changes
        self._runs: dict[str, Run] = {}
        self._next = trio.CancelScope()  # of the wait for the first whose time is over

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        """Yield those that are there now."""
        yield from list(self._runs.values())

    def get(self, request_id: str) -> Run | None:
        """Return the one of that id, if it is kept."""
        return self._runs.get(request_id)

    def keep(self, run: Run) -> None:
        """Keep one that has just ended, until its time is over or others need the room."""
        run.keep_until(trio.current_time())
        self._runs[run.id] = run
        self.nbytes += run.held
        self._changes.happened("kept", run)
        while self.nbytes > self._most:
            self.drop(next(iter(self._runs.values())))
        self._next.deadline = min(self._next.deadline, run.over_at)

    def drop(self, run: Run) -> None:
        """Drop one, if it is kept."""
        if self._runs.pop(run.id, None) is not None:
            self.nbytes -= run.held
            self._changes.happened("dropped", run)

    async def drop_in_time(self) -> None:
        """Drop each when its time is over; ends by being cancelled."""
        while True:
            self._next = trio.CancelScope(deadline=min((run.over_at for run in self), default=math.inf))
            with self._next:
                await trio.sleep_forever()
            for run in self:
                if run.over_at <= trio.current_time():
                    self.drop(run)
