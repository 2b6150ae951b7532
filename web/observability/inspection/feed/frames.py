"""The frames of one viewer, a few a second, and only while something happens; their stream, as server-sent events."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from web.bodies.json_encoding import dumps
from web.bodies.page_buffer import PageBuffer
from web.bodies.responses import StreamBody
from web.observability.inspection.answers import counts
from web.observability.inspection.visible import runs_shown, shown, slots_shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.engine import Engine
    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.observability.inspection.feed import answers
    from web.observability.inspection.feed.answers import EngineState
    from web.observability.inspection.feed.feed import Feed, Viewer
    from web.observability.inspection.visible import Sight
    from web.storage.detached.runs import Runs

INTERVAL = 0.2
"""Seconds from one frame to the next, at least."""

GATHERED = 0.03
"""Seconds for which a frame waits, after the first thing that it tells: what happens together is told together."""

MOST_EVENTS = 1024
"""Of one frame; what is left is in the next one."""

SNAPSHOT, FRAME, LAGGED = "snapshot", "frame", "lagged"
"""What frames are called: the first one, any other, and one before which events were lost."""


class Frame(NamedTuple):
    """Events since the frame before, and how the engine stands.

    Attributes:
        kind: as it is called.
        value: an `answers.Frame`; of another worker, its JSON.
    """

    kind: str
    value: Mapping[str, Any]


class Frames:
    """Makes them when they are asked for.

    Between two frames nothing is made and nothing waits: what happens meanwhile is in the feed's ring.  So whoever asks
    seldom gets fewer and larger frames, and loses what the ring no longer has.

    Args:
        feed: that is watched.
        viewer: whose events they have; nobody else takes them.
        sight: what is shown; None for all.
    """

    def __init__(self, feed: Feed, viewer: Viewer, sight: Sight | None) -> None:
        self._feed = feed
        self._viewer = viewer
        self._sight = sight
        self._made_at = -INTERVAL  # the last frame, on Trio's clock
        self._begun = False

    @property
    def is_over(self) -> bool:
        """Return whether the feed has ended, and all of it was told."""
        return self._feed.is_over and not self._viewer.has_news

    async def next(self, patience: float) -> Frame | None:
        """Return the next frame, or None if nothing happens for so many seconds.  The first one comes at once."""
        if not self._begun:
            self._begun = True
            return self._make(SNAPSHOT)
        with trio.move_on_after(patience) as waiting:
            await self._viewer.wait()
        if waiting.cancelled_caught:
            return None
        await trio.sleep_until(max(self._made_at + INTERVAL, trio.current_time() + GATHERED))
        return self._make(FRAME)

    def _make(self, kind: str) -> Frame:
        records, lost = self._viewer.take(MOST_EVENTS)
        told = [value for record in records if (value := record.shown_to(self._sight)) is not None]
        feed = self._feed
        frame: answers.Frame = {
            "at": feed.now(),
            "lost": lost,
            "output_tokens": feed.output_tokens,
            "events": told,
            "state": state(feed.engine, feed.runs, self._sight),
        }
        if kind == SNAPSHOT:
            add_beginning(frame, feed.engine, self._sight)
        self._made_at = trio.current_time()
        return Frame(LAGGED if lost else kind, frame)


RECEIPTS = 50
"""The newest ones, that a viewer gets to begin with."""

DETACHABLE = 40
"""Requests that may outlive their clients, of which a frame tells at most."""


def state(engine: Engine, runs: Runs | None, key: Sight | None) -> EngineState:
    """Return what changes: requests, slots and counts, as whoever has the key may see them."""
    return {
        "health": engine.health(),
        "requests": list(shown(engine.requests(), key)),
        "detachable": [run.status() for run in islice(runs_shown(runs, key), DETACHABLE)],
        "slots": list(slots_shown(engine, key)),
        "statistics": counts(engine, runs),
    }


def add_beginning(frame: answers.Frame, engine: Engine, key: Sight | None) -> None:
    """Add what a viewer gets once: what does not change, and the newest cancels, the newest first."""
    frame["model"] = engine.model.name
    frame["context"] = engine.model.context_length
    frame["queue"] = engine.config.queue
    frame["step_seconds"] = engine.config.step_seconds
    frame["receipts"] = list(islice(shown(engine.receipts(), key), RECEIPTS))


KEEP_ALIVE = b": alive\n\n"
END = b"event: end\ndata: {}\n\n"


def sse_of(frame: Frame) -> bytes:
    """Encode a frame as a server-sent event."""
    return f"event: {frame.kind}\ndata: {dumps(frame.value)}\n\n".encode()


class FeedStream(StreamBody):
    """The body of the response to a viewer.

    A connection takes the next frame when it has passed on the one before, so a slow viewer gets fewer and larger ones.

    Args:
        feed: that is watched.
        viewer: of this response; nobody else takes its events.
        key: who watches; None where there are no keys.
        keep_alive: seconds of silence after which the stream says that it is alive.
        backlog: of the bytes of a frame that are not sent yet.
        write_bytes: of one write.
        follow: whether more frames come after the first.
    """

    def __init__(
        self,
        feed: Feed,
        viewer: Viewer,
        key: Sight | None,
        *,
        keep_alive: float,
        backlog: Backlog,
        write_bytes: int,
        follow: bool,
    ) -> None:
        self._frames = Frames(feed, viewer, key)
        self._keep_alive = keep_alive
        self._backlog = backlog
        self._follows = follow
        self._unsent = PageBuffer(write_bytes)
        self._ended = False
        backlog.gathering = False
        backlog.on_cut = self._cut

    async def __anext__(self) -> bytes:
        """Return what to write next; a sign of life if nothing happens for long.

        Raises:
            trio.TooSlowError: the viewer was cut: too much is unread.
        """
        await trio.lowlevel.checkpoint()
        if self._backlog.error is not None:
            raise trio.TooSlowError(str(self._backlog.error))
        if not self._unsent:
            if self._ended:
                raise StopAsyncIteration
            if not await self._make():
                return KEEP_ALIVE
        page = self._unsent.take()
        self._backlog.set_size(len(self._unsent))
        return page

    async def _make(self) -> bool:
        """Make a frame, unless nothing happens for so long that a sign of life is due."""
        frame = await self._frames.next(self._keep_alive)
        if frame is None:
            return False
        self._unsent.write(sse_of(frame))
        if not self._follows or self._frames.is_over:
            self._ended = True
            if self._frames.is_over:
                self._unsent.write(END)
        self._backlog.set_size(len(self._unsent))
        return True

    def _cut(self, _: CedeError) -> None:
        self._unsent.clear()
