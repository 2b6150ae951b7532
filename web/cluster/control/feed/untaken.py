"""News that a reader has not taken yet: of each worker one frame at most, and what became of the worker."""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from web.observability.inspection.feed.feed import CAPACITY
from web.observability.inspection.feed.frames import LAGGED, SNAPSHOT, Frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from web.cluster.control.questions import Json

WORKER = "worker"
"""What an event is called that says what became of a worker."""


class Standing(enum.StrEnum):
    """State of a worker, as the feed tells it.

    Attributes:
        JOINED: discovery knows it, from now on.
        SILENT: nothing comes from it, although discovery knows it; its next frame says that it is there again.
        LEFT: discovery knows it no longer.
    """

    JOINED = "joined"
    SILENT = "silent"
    LEFT = "left"


@dataclass(slots=True)
class _News:
    """News of one worker: a frame, and what became of the worker before and after it."""

    before: Standing | None = None
    frame: Frame | None = None
    after: Standing | None = None


Told: TypeAlias = tuple[str, "Json"]
"""A server-sent event: what it is called, and its data, which say of which worker it is."""


class Untaken:
    """News for one reader.  Nobody waits for it: what it does not take is merged into one frame, which loses events.

    Args:
        capacity: events of a frame, of which the newest are kept.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._news: OrderedDict[str, _News] = OrderedDict()
        self._waiting = trio.lowlevel.ParkingLot()
        self.is_over = False

    @property
    def has_news(self) -> bool:
        """Return whether there is something to take."""
        return bool(self._news)

    def say(self, worker: str, standing: Standing) -> None:
        """Note what has become of a worker."""
        news = self._of(worker)
        if news.frame is None:
            news.before = standing
        else:
            news.after = standing

    def add(self, worker: str, frame: Frame) -> None:
        """Add a frame that has come from a worker, which so is there."""
        news = self._of(worker)
        news.frame = frame if news.frame is None else merged(news.frame, frame, self._capacity)
        news.after = None

    def take(self) -> list[Told]:
        """Return all of one worker: of those that have news the one that has had them for longest."""
        worker, news = self._news.popitem(last=False)
        told: list[tuple[str, Mapping[str, Any]]] = [(WORKER, {"standing": news.before.value})] if news.before else []
        if news.frame is not None:
            told.append((news.frame.kind, news.frame.value))
        if news.after:
            told.append((WORKER, {"standing": news.after.value}))
        return [(kind, {"worker": worker, **value}) for kind, value in told]

    async def wait(self) -> None:
        """Wait until there is something to take, or nothing will come any more."""
        await trio.lowlevel.checkpoint()
        while not (self._news or self.is_over):
            await self._waiting.park()

    def end(self) -> None:
        """Note that nothing comes any more."""
        self.is_over = True
        self._waiting.unpark_all()

    def _of(self, worker: str) -> _News:
        self._waiting.unpark_all()
        return self._news.setdefault(worker, _News())


def merged(earlier: Frame, later: Frame, capacity: int) -> Frame:
    """Return one frame in place of two of a worker, with at most so many events.

    A snapshot begins anew, so what was told before it is lost.
    """
    before, now = earlier.value, later.value
    events = now["events"] if later.kind == SNAPSHOT else before["events"] + now["events"]
    kept = events[-capacity:]
    lost = before["lost"] + now["lost"] + len(before["events"]) + len(now["events"]) - len(kept)
    kind = SNAPSHOT if SNAPSHOT in (earlier.kind, later.kind) else later.kind
    return Frame(LAGGED if lost else kind, {**before, **now, "events": kept, "lost": lost})
