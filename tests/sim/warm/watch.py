"""I25: a warm request has no row in a step while somebody else has work, but for the layer in which that one came."""

from __future__ import annotations

from collections.abc import Callable

from actors.core.events import Arrived, Departed, LayerDone, Queued, StepBegins, StepEnded, StepRaised
from actors.core.generation import GenerationRequest
from actors.core.observer import Observer
from actors.core.receipts import CancelReason, Receipt
from tests.sim.books import Books


class WarmWatch(Observer):
    """Checks I25.

    Args:
        books: told of each event before this.
        violated: told what does not hold.
    """

    def __init__(self, books: Books, violated: Callable[[str], None]) -> None:
        self._books = books
        self._violated = violated
        self._live: dict[str, GenerationRequest] = {}
        self._met: set[str] = set()  # warm ones beside whom others were
        self._warm_in_step: list[str] = []
        self._came: str | None = None  # with work, while a step runs that has warm rows
        self._layers = 0  # of that step, since then

    def arrived(self, event: Arrived) -> None:
        """Note who is there, and which warm ones have met somebody with work, however soon that one leaves."""
        self._live[event.asked.id] = event.asked
        warm = {name for name, asked in self._live.items() if asked.control.warm}
        if warm != set(self._live):
            self._met |= warm

    def departed(self, event: Departed) -> None:
        """Note who is gone."""
        if self._live.get(event.asked.id) is event.asked:
            del self._live[event.asked.id]

    def queued(self, event: Queued) -> None:
        """Note that somebody came with work, while warm rows are on the device."""
        if self._warm_in_step and self._came is None and not self._is_warm(event.request_id):
            self._came, self._layers = event.request_id, 0

    def step_begins(self, event: StepBegins) -> None:
        """Check that no step of a warm request begins while somebody else has work."""
        self._warm_in_step = [part.request_id for part in event.parts if self._is_warm(part.request_id)]
        generations = [*self._books.waiting.values(), *self._books.holding.values()]
        others = [one.owner for one in generations if one.is_alive and not self._is_warm(one.owner[0])]
        if self._warm_in_step and others:
            self._violated(f"I25: a step begins with rows of {self._warm_in_step}, warm, and {others} have work")

    def layer_done(self, event: LayerDone) -> None:
        """Check that no second layer runs for a warm request once somebody has come."""
        if self._came is None:
            return
        self._layers += 1
        if self._layers > 1:
            self._violated(f"I25: {self._layers} layers ran for {self._warm_in_step}, warm, since {self._came} came")

    def step_ended(self, event: StepEnded) -> None:
        """Note that it has ended."""
        self._warm_in_step, self._came = [], None

    def step_raised(self, event: StepRaised) -> None:
        """Note that it has ended."""
        self._warm_in_step, self._came = [], None

    def receipt(self, event: Receipt) -> None:
        """Check that who was ended for others was warm, and that there were others."""
        if event.reason is not CancelReason.OTHER_WORK:
            return
        if not event.warm or event.request_id not in self._met:
            self._violated(f"I25: {event.request_id} was ended for others' work, and there were none: {event}")

    def _is_warm(self, request_id: str) -> bool:
        asked = self._live.get(request_id)
        return asked is not None and asked.control.warm
