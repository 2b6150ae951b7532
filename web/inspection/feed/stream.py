"""The stream of one viewer: a few frames a second, and only while something happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import trio
from quart.wrappers.response import ResponseBody

from web.bodies.json_encoding import dumps
from web.bodies.page_buffer import PageBuffer
from web.inspection.feed.state import beginning, state

if TYPE_CHECKING:
    from types import TracebackType

    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.access.api_keys import ApiKey
    from web.inspection.feed.feed import Feed, Viewer
    from web.inspection.feed.records import Json

INTERVAL = 0.2
"""Seconds from one frame to the next, at least."""

GATHERED = 0.03
"""Seconds for which a frame waits, after the first thing that it tells: what happens together is told together."""

MOST_EVENTS = 1024
"""Of one frame; what is left is in the next one."""

KEEP_ALIVE = b": alive\n\n"


class FeedStream(ResponseBody):
    """The body of the response to a viewer.

    Between two frames nothing is made and nothing waits: what happens meanwhile is in the feed's ring.  A connection
    takes the next frame when it has passed on the one before, so a slow viewer gets fewer and larger frames, and loses
    what the ring no longer has.

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
        key: ApiKey | None,
        *,
        keep_alive: float,
        backlog: Backlog,
        write_bytes: int,
        follow: bool,
    ) -> None:
        self._feed = feed
        self._viewer = viewer
        self._key = key
        self._keep_alive = keep_alive
        self._backlog = backlog
        self._follows = follow
        self._unsent = PageBuffer(write_bytes)
        self._sent_at = -INTERVAL  # the last frame, on Trio's clock
        self._begun = self._ended = False
        backlog.gathering = False
        backlog.on_cut = self._cut

    async def __aenter__(self) -> Self:
        """Return the body itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Do nothing: the viewer leaves with the request."""

    def __aiter__(self) -> Self:
        """Return the body itself."""
        return self

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
        self._backlog.hold(len(self._unsent))
        return page

    async def _make(self) -> bool:
        """Make a frame, unless nothing happens for so long that a sign of life is due."""
        if not self._begun:
            self._begun = True
            self._write("snapshot", beginning(self._feed.engine, self._key))
        else:
            with trio.move_on_after(self._keep_alive) as patience:
                await self._viewer.wait()
            if patience.cancelled_caught:
                return False
            await trio.sleep_until(max(self._sent_at + INTERVAL, trio.current_time() + GATHERED))
            self._write("frame", {})
        if not self._follows or (self._feed.is_over and not self._viewer.has_news):
            self._ended = True
            if self._feed.is_over:
                self._unsent.write(b"event: end\ndata: {}\n\n")
        return True

    def _write(self, kind: str, more: Json) -> None:
        records, lost = self._viewer.take(MOST_EVENTS)
        told = [value for record in records if (value := record.shown_to(self._key)) is not None]
        engine = self._feed.engine
        frame = {"at": self._feed.now(), "lost": lost, "output_tokens": self._feed.output_tokens, "events": told}
        frame |= {"state": state(engine, self._feed.runs, self._key)} | more
        self._unsent.write(f"event: {'lagged' if lost else kind}\ndata: {dumps(frame)}\n\n".encode())
        self._backlog.hold(len(self._unsent))
        self._sent_at = trio.current_time()

    def _cut(self, _: CedeError) -> None:
        self._unsent.clear()
