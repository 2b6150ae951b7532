"""Workers that tell what a test lets them tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import trio

from web.observability.inspection.feed.frames import FRAME, SNAPSHOT, Frame

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from web.cluster.control.questions import Question

A, B = "000000000000000a", "000000000000000b"


def frame(*events: int, kind: str = FRAME, lost: int = 0) -> Frame:
    """One with such events."""
    return Frame(kind, {"at": 1.0, "lost": lost, "events": [{"type": "n", "n": n} for n in events]})


def snapshot() -> Frame:
    """A first one."""
    return frame(kind=SNAPSHOT)


class TellingWorkers:
    """Workers whose streams a test holds.

    Attributes:
        known: to discovery.
        asked: how often each was asked for a stream.
        open: the streams that are open, by their workers.
    """

    def __init__(self, *known: str) -> None:
        self.known = list(known)
        self.asked: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self._pieces: dict[str, Any] = defaultdict(lambda: trio.open_memory_channel[Frame | None](100))

    def ids(self) -> list[str]:
        """Return the ids that are known."""
        return sorted(self.known)

    def tell(self, worker: str, piece: Frame | None) -> None:
        """Let a worker say something, in the stream that it has, or will have next."""
        self._pieces[worker][0].send_nowait(piece)

    def break_off(self, worker: str) -> None:
        """Let the stream of a worker end."""
        self._pieces.pop(worker)[0].close()

    async def frames(self, worker: str) -> AsyncGenerator[Frame | None]:
        """Yield what it tells."""
        self.asked[worker] += 1
        self.open[worker] += 1
        try:
            receiver = self._pieces[worker][1]
            async for piece in receiver:
                yield piece
        finally:
            self.open[worker] -= 1

    async def ask(
        self,
        question: Question,
        worker: str | None = None,
        **about: Any,  # noqa: ANN401
    ) -> tuple[dict[str, Any], list[str]]:
        """Nobody asks."""
        raise AssertionError((question, worker, about))
