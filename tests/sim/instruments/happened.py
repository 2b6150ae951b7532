"""Record of what the engine told of requests and generations: the truth that instruments are held against."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.core.events import (
    Arrived,
    Departed,
    Emitted,
    Ended,
    Granted,
    Queued,
    Refused,
    Resumed,
    StepBegins,
)
from actors.core.generation import GenerationRequest
from actors.core.observer import Observer
from actors.core.receipts import Receipt
from actors.core.slot_views import GenerationKey


@dataclass(slots=True, eq=False)
class Happened(Observer):
    """Remembers what came and went.

    Attributes:
        came, gone: requests, as often as that was told.
        turned_away: ids of those that were given no place.
        waited, over: generations, as often as that was told.
        slots: of those that were granted one.
        receipts: of those that were cancelled.
        tokens: of all outputs.
        steps: that began.
    """

    came: list[GenerationRequest] = field(default_factory=list)
    gone: list[GenerationRequest] = field(default_factory=list)
    turned_away: list[str] = field(default_factory=list)
    waited: list[GenerationKey] = field(default_factory=list)
    over: list[GenerationKey] = field(default_factory=list)
    slots: dict[GenerationKey, int] = field(default_factory=dict)  # the first that each had
    holds: list[tuple[GenerationKey, int]] = field(default_factory=list)  # all that they had
    receipts: dict[GenerationKey, Receipt] = field(default_factory=dict)
    tokens: int = 0
    steps: int = 0

    def arrived(self, event: Arrived) -> None:
        """Note a request."""
        self.came.append(event.asked)

    def departed(self, event: Departed) -> None:
        """Note its end."""
        self.gone.append(event.asked)

    def refused(self, event: Refused) -> None:
        """Note that it was not let in."""
        self.turned_away.append(event.request_id)

    def queued(self, event: Queued) -> None:
        """Note a generation."""
        self.waited.append(event.key)

    def granted(self, event: Granted) -> None:
        """Note its slot."""
        self.slots[event.key] = event.slot
        self.holds.append((event.key, event.slot))

    def resumed(self, event: Resumed) -> None:
        """Note its next slot."""
        self.holds.append((event.key, event.slot))

    def receipt(self, event: Receipt) -> None:
        """Note its cancel."""
        self.receipts[event.request_id, event.index] = event

    def emitted(self, event: Emitted) -> None:
        """Count its tokens."""
        self.tokens += event.tokens

    def ended(self, event: Ended) -> None:
        """Note its end."""
        self.over.append(event.key)

    def step_begins(self, event: StepBegins) -> None:
        """Count it."""
        self.steps += 1
