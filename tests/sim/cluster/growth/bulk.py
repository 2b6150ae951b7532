"""A network for millions of messages: those that come within the same millisecond come together."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

import trio

from tests.sim.cluster.network import Network

TICK = 0.001  # seconds


class BulkNetwork(Network):
    """Delivers from one task instead of from one for each message.

    Args:
        nursery: of that task.
        seed: of the delays.
        delay: seconds, the least and the most.
    """

    def __init__(self, nursery: trio.Nursery, seed: int, delay: tuple[float, float]) -> None:
        super().__init__(nursery, seed, delay)
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._some = trio.Event()
        nursery.start_soon(self._deliver_all)

    def deliver_at(self, at: float, act: Callable[[], None]) -> None:
        """Let something happen then, or less than a tick later."""
        self.messages += 1
        heapq.heappush(self._coming, (math.ceil(at / TICK), next(self._numbers), act))
        self._some.set()

    async def _deliver_all(self) -> None:
        while True:
            await self._some.wait()
            if not self._coming:
                self._some = trio.Event()
                continue
            tick = self._coming[0][0]
            await trio.sleep_until(tick * TICK)
            while self._coming and self._coming[0][0] <= tick:
                heapq.heappop(self._coming)[2]()
