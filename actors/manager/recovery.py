"""Recovery from the loss of the device: what becomes of everybody, and whether it is brought back.

A thread that ended left nobody who writes KV, so another takes its place.  One that hangs may write KV at any time: no
other may run beside it, and all that can be done is to wait whether it comes back.  A device that refuses all work is
lost until the process ends.  What is lost again and again is left alone: somebody should look at it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from actors.core.commands import Recovered
from actors.core.events import DeviceIsBack, DeviceIsLost
from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core.holds import HoldRecord, Holds
    from actors.core.observer import Observers
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.admission import Admission
    from runtime.step.executor import Executor

MAX_RECOVERIES = 3
WINDOW_SECONDS = 600.0

logger = logging.getLogger("cede.engine")


class Recovery:
    """Gives up what a lost device held, and brings the device back, so many times in a while.

    Attributes:
        lost: why no step can run; None while steps can.
        losses: of the device, since the start.

    Args:
        executor, table, cache, holds, admission, observers: the manager's.
        invalidate: gives up the KV of a slot that is held.
        post: puts `Recovered` into the manager's mailbox.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        admission: Admission,
        observers: Observers,
        *,
        invalidate: Callable[[HoldRecord], None],
        post: Callable[[Recovered], None],
    ) -> None:
        self.lost: str | None = None
        self.losses = 0
        self._executor = executor
        self._table = table
        self._cache = cache
        self._holds = holds
        self._admission = admission
        self._observers = observers
        self._invalidate = invalidate
        self._post = post
        self._begun: deque[float] = deque(maxlen=MAX_RECOVERIES)  # when, on Trio's clock

    def lose(self, loss: DeviceLost) -> None:
        """Give up all KV in the slots, and tell whoever holds one; `bring_back` is to follow.

        Who is queued need not know where another thread is sure to take over: he waits for it.
        """
        logger.error("the device is lost: %s", loss)
        self.losses += 1
        self.lost = str(loss)
        for record in self._holds:
            self._invalidate(record)
            record.lose(self.lost)
        for place in self._table.lent:
            self._cache.waiting.forget(place.id)
            self._table.invalidate(place)
        self._table.pages.clear()
        queue_waits = isinstance(loss, DeviceThreadEnded)
        if queue_waits:
            self._admission.hold_back()
        else:
            self._admission.turn_away(self.lost)
        if self._observers.device_lost:
            self._observers.tell(self._observers.device_lost, DeviceIsLost(self.lost, queue_waits=queue_waits))

    async def bring_back(self, loss: DeviceLost) -> None:
        """Post `Recovered` once steps can run again, or once it is known that they never will."""
        try:
            await self._attempt(loss)
        except DeviceLost as final:
            self._post(Recovered(final))
        else:
            self._post(Recovered(None))

    def end(self, command: Recovered) -> None:
        """Go on with the device, or let nobody wait for it any longer."""
        if command.loss is None:
            logger.warning("the device is back, without the KV that it held")
            self.lost = None
            self._admission.resume()
            if self._observers.device_back:
                self._observers.tell(self._observers.device_back, DeviceIsBack())
        else:
            logger.error("the device is lost for good: %s", command.loss)
            self.lost = str(command.loss)
            self._admission.turn_away(self.lost)
            if self._observers.device_lost:
                self._observers.tell(self._observers.device_lost, DeviceIsLost(self.lost, queue_waits=False))

    async def _attempt(self, loss: DeviceLost) -> None:
        """Return once steps can run again, which may be never.

        Raises:
            DeviceLost: they never will; its message is for whoever asks why.
        """
        if not isinstance(loss, DeviceThreadEnded | DeviceHangs):
            raise loss
        now = trio.current_time()
        if len(self._begun) == MAX_RECOVERIES and now - self._begun[0] < WINDOW_SECONDS:
            raise DeviceLost(f"{loss}, for the {MAX_RECOVERIES + 1}th time in {now - self._begun[0]:.0f} s")
        self._begun.append(now)
        await self._executor.recover()
