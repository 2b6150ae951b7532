"""The stream of one viewer, as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from web.bodies.json_encoding import dumps
from web.bodies.page_buffer import PageBuffer
from web.bodies.responses import StreamBody
from web.observability.inspection.feed.frames import Frames

if TYPE_CHECKING:
    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.observability.inspection.feed.feed import Feed, Viewer
    from web.observability.inspection.feed.frames import Frame
    from web.observability.inspection.visible import Sight

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
