"""Events of the feed.  Times are seconds since the epoch, on the receipts' clock."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from actors.core.generation import LiveRequest
from actors.core.receipts import Receipt
from actors.core.slot_views import SlotStatus
from web.observability.inspection.answers import Counts
from web.storage.detached.run import DetachableRequest


class EngineState(TypedDict):
    """State of the engine when a frame is made.

    Attributes:
        health: why it does not serve; None while it does.
        requests: the live ones, the oldest first; a key sees its own.
        detachable: as `/v1/requests` has them, forty at most.
        statistics: as `/v1/statistics` has them, without `tasks`.
    """

    health: str | None
    requests: list[LiveRequest]
    detachable: list[DetachableRequest]
    slots: list[SlotStatus]
    statistics: Counts


class Frame(TypedDict):
    """Events since the frame before, and how the engine stands now.

    Attributes:
        lost: events that this viewer was too slow for.
        output_tokens: written by all requests; differences from frame to frame count.
        events: in their order; each has `type` and `at`: docs/start/page.md.
        model: this and those below in the first frame alone.
        queue: how many may wait.
        step_seconds: what a step is to take that others share with a prompt.
        receipts: the newest cancels, the newest first.
    """

    at: float
    lost: int
    output_tokens: int
    events: list[dict[str, Any]]
    state: EngineState
    model: NotRequired[str]
    context: NotRequired[int]
    queue: NotRequired[int]
    step_seconds: NotRequired[float]
    receipts: NotRequired[list[Receipt]]
