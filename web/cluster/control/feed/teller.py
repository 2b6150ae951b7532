"""A worker's side of the feed: its frames, one by one, for whoever asks through Dynamo."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from web.bodies.json_encoding import dumps
from web.cluster.control.desk import FrontDoorSight
from web.cluster.handoff import Closed, handing_over
from web.cluster.settings import BEAT_SECONDS
from web.observability.inspection.feed.frames import Frames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import trio

    from web.cluster.control.questions import Json
    from web.cluster.handoff import Context, Handoff
    from web.observability.inspection.feed.feed import Feed

SIGN_OF_LIFE: Json = {}
"""Between two frames, of a worker that has nothing to tell."""


class Teller:
    """Tells what a worker does.

    Args:
        feed: of its engine.
        nursery: Trio's, in which it is told; open as long as anybody may ask.
        beat: seconds after which a stream on which nothing comes says that it lives.
    """

    def __init__(self, feed: Feed, nursery: trio.Nursery, beat: float = BEAT_SECONDS) -> None:
        self._feed = feed
        self._nursery = nursery
        self._beat = beat

    async def tell(self, context: Context) -> AsyncGenerator[Json]:
        """Yield frames, each as `kind` and `value`, until the feed ends or nobody wants them; asyncio's."""
        with handing_over(self._nursery, context, self._run) as pieces:
            try:
                while True:
                    piece = await pieces.take(self._beat)
                    yield SIGN_OF_LIFE if piece is None else piece
            except Closed:
                return

    def end(self) -> None:
        """Let all streams come to their ends."""
        self._feed.end()

    async def _run(self, pieces: Handoff[Json]) -> None:
        """Trio's side of a stream."""
        with self._feed.watched() as viewer:
            frames = Frames(self._feed, viewer, FrontDoorSight())
            while (frame := await frames.next(math.inf)) is not None:
                await pieces.put({"kind": frame.kind, "value": json.loads(dumps(frame.value))})
                if frames.is_over:
                    return
