"""Whether a device that was lost is brought back.

A thread that ended left nobody who writes KV, so another takes its place.  One that hangs may write KV at any time: no
other may run beside it, and all that can be done is to wait whether it comes back.  A device that refuses all work is
lost until the process ends.  What is lost again and again is left alone: somebody should look at it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded

if TYPE_CHECKING:
    from runtime.step.executor import Executor

MOST_RECOVERIES = 3
WINDOW_SECONDS = 600.0


class Supervisor:
    """Brings the device of `executor` back, so many times in a while."""

    def __init__(self, executor: Executor) -> None:
        self.losses = 0
        self._executor = executor
        self._begun: deque[float] = deque(maxlen=MOST_RECOVERIES)  # when, on Trio's clock

    async def recover(self, loss: DeviceLost) -> None:
        """Return once steps can run again, which may be never.

        Raises:
            DeviceLost: they never will; its message is for whoever asks why.
        """
        self.losses += 1
        if not isinstance(loss, DeviceThreadEnded | DeviceHangs):
            raise loss
        now = trio.current_time()
        if len(self._begun) == MOST_RECOVERIES and now - self._begun[0] < WINDOW_SECONDS:
            raise DeviceLost(f"{loss}, for the {MOST_RECOVERIES + 1}th time in {now - self._begun[0]:.0f} s")
        self._begun.append(now)
        await self._executor.recover()
