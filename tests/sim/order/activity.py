"""Activity of the device, which is all that anyone may wait for."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from actors.core.events import (
    ActorStage,
    DeviceIsBack,
    DeviceIsLost,
    Released,
    StageBegun,
    StepBegins,
    StepEnded,
    StepRaised,
    TransferBegins,
    TransferEnded,
)
from actors.core.observer import Observer


class Activity(Observer):
    """Sums of the seconds for which the device, or a disk that somebody waits for, has been busy."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._total = 0.0
        self._since = 0.0
        self._going_on: set[Hashable] = set()

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self._total + (self._clock() - self._since if self._going_on else 0.0)

    def step_begins(self, event: StepBegins) -> None:
        """Begin a step."""
        self._begin("step")

    def step_ended(self, event: StepEnded) -> None:
        """End it."""
        self._end("step")

    def step_raised(self, event: StepRaised) -> None:
        """End it."""
        self._end("step")

    def transfer_begins(self, event: TransferBegins) -> None:
        """Begin to move KV."""
        self._begin("transfer")

    def transfer_ended(self, event: TransferEnded) -> None:
        """End that."""
        self._end("transfer")

    def device_lost(self, event: DeviceIsLost) -> None:
        """Begin to wait for the device, whatever it was at."""
        self._end("transfer")
        self._begin("recovery")

    def device_back(self, event: DeviceIsBack) -> None:
        """End that."""
        self._end("recovery")

    def stage_begun(self, event: StageBegun) -> None:
        """Begin or end a wait for the disk."""
        (self._begin if event.stage is ActorStage.FETCHING else self._end)(event.key)

    def released(self, event: Released) -> None:
        """End it, if it was cut short."""
        self._end(event.key)

    def _begin(self, what: Hashable) -> None:
        if not self._going_on:
            self._since = self._clock()
        self._going_on.add(what)

    def _end(self, what: Hashable) -> None:
        if what not in self._going_on:
            return
        self._going_on.remove(what)
        if not self._going_on:
            self._total += self._clock() - self._since
