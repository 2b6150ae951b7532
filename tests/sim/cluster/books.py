"""Books of each request, and of each attempt to have it served: told by both ends, and compared in the end."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

import trio

from actors.core.events import Arrived, Cancelled, Departed, Released
from actors.core.observer import Observer
from actors.core.receipts import CancelReason
from tests.sim.cluster.scenario import Visit

SERVED: ContextVar[Attempt] = ContextVar("SERVED")
"""The attempt for which a task on a worker runs."""


@dataclass(slots=True, eq=False)
class Story:
    """A request, as its client saw it.

    Attributes:
        id: the front door's.
        asked_at: when.
        door: that was asked, by its process.
        tokens: of each choice.
        finishes: why each choice ended.
        status, why: of the error that it ended with.
        broken: the connection ended before the answer did.
        hung_up_at: when the client left.
        ends: how many were told; one is right.
        attempts: in order.
    """

    id: str
    visit: Visit
    asked_at: float
    door: str
    tokens: list[list[int]] = field(default_factory=list)
    finishes: dict[int, str] = field(default_factory=dict)
    status: int | None = None
    why: str = ""
    broken: bool = False
    hung_up_at: float | None = None
    ends: int = 0
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Return whether it has all that was asked for."""
        return self.status is None and not self.broken and len(self.finishes) == self.visit.choices


@dataclass(slots=True, eq=False)
class Attempt:
    """A worker was asked for a request.

    Attributes:
        worker: its process.
        node: of the worker.
        door: the process that asked.
        sent_at: by the front door.
        came_at: to the worker.
        left_at: when the front door wanted it no longer, before its end.
        why: the front door went on.
        word_at: when the worker heard of that.
        arrived_at, departed_at: in the engine.
        cancels: when each of its generations was cancelled.
        reasons: of those that were, when released.
    """

    request_id: str
    worker: str
    node: str
    door: str
    sent_at: float
    came_at: float | None = None
    left_at: float | None = None
    why: str = ""
    word_at: float | None = None
    arrived_at: float | None = None
    departed_at: float | None = None
    cancels: list[float] = field(default_factory=list)
    reasons: list[tuple[float, CancelReason]] = field(default_factory=list)


class Attendance(Observer):
    """Writes down what an engine does for attempts; one for each worker.

    Args:
        worker: its process's name.
    """

    def __init__(self, worker: str) -> None:
        self.strange: list[str] = []
        self._worker = worker
        self._live: dict[str, Attempt] = {}

    def arrived(self, event: Arrived) -> None:
        """Note when."""
        request_id, attempt = event.asked.id, SERVED.get()
        if request_id in self._live or attempt.request_id != request_id:
            self.strange.append(f"I34: {request_id} comes to the engine of {self._worker}, which has it")
        attempt.arrived_at = trio.current_time()
        self._live[request_id] = attempt

    def departed(self, event: Departed) -> None:
        """Note when."""
        if (attempt := self._live.pop(event.asked.id, None)) is not None:
            attempt.departed_at = trio.current_time()

    def cancelled(self, event: Cancelled) -> None:
        """Note when."""
        if (attempt := self._live.get(event.request_id)) is not None:
            attempt.cancels.append(event.at)

    def released(self, event: Released) -> None:
        """Note what for."""
        attempt = self._live.get(event.request_id)
        if attempt is not None and event.reason is not None:
            attempt.reasons.append((trio.current_time(), event.reason))
