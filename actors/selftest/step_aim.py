"""Aims at a step: returns while one of the wanted kind runs, so that something can be done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from actors.core.life import State
from actors.core.observer import Observer
from runtime.selftest.findings import Mismatch

if TYPE_CHECKING:
    from actors.core.events import StepBegins, StepEnded
    from actors.engine import Engine

PATIENCE = 60.0  # seconds for what takes milliseconds
# Of a phase's steps, the one that is met: so that there is something to keep.
NTH = {State.PREFILL: 3, State.DECODE: 5, State.DRAFT: 4, State.VERIFY: 3}
# What is followed by a step of the same kind, so that an aim at the middle of one cannot meet another.
LASTING = (State.PREFILL, State.DECODE)


class _StepCount(Observer):
    """Counts steps with rows of one phase, of one request or of any; `begun` is set when the n-th begins."""

    def __init__(self, phase: State, request_id: str | None) -> None:
        self.begun = trio.Event()
        self.seconds = 0.0  # that the last step took
        self._left = NTH[phase]
        self._phase = phase
        self._request_id = request_id

    def step_begins(self, event: StepBegins) -> None:
        """Count it, if it is of the kind."""
        wanted = [part.request_id for part in event.parts if part.phase is self._phase]
        if wanted and self._request_id in (None, *wanted):
            self._left -= 1
            if self._left == 0:
                self.begun.set()

    def step_ended(self, event: StepEnded) -> None:
        """Note how long it took."""
        self.seconds = event.result.finished_at - event.result.started_at


async def step_in(engine: Engine, phase: State, request_id: str | None = None) -> None:
    """Return while a step of that phase runs for the request, or for anybody; in its middle if that can be aimed at.

    Raises:
        Mismatch: none came.
    """
    steps = _StepCount(phase, request_id)
    try:
        with engine.observed_by(steps), trio.fail_after(PATIENCE):
            await steps.begun.wait()
            if phase in LASTING:
                await trio.sleep(steps.seconds / 2)
    except trio.TooSlowError:
        raise Mismatch(f"no {phase} step came within {PATIENCE:g} s") from None
