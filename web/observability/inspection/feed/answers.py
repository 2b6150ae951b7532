"""Events of the feed, for the OpenAPI document.  Times are seconds since the epoch, on the receipts' clock."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from web.observability.inspection.answers import LiveRequest, Receipt, Slot
from web.openapi.operations import Answer
from web.storage.detached.answers import DetachableRequest


class State(Answer):
    """State of the engine when a frame is made."""

    health: str | None = Field(description="Why it does not serve; null while it does.")
    requests: list[LiveRequest] = Field(description="The live ones, the oldest first; a key sees its own.")
    detachable: list[DetachableRequest] = Field(description="As `/v1/requests` has them, forty at most.")
    slots: list[Slot]
    statistics: dict[str, Any] = Field(description="As `/v1/statistics` has them, without `tasks` and `loop`.")


class Frame(Answer):
    """Events since the frame before, and how the engine stands now."""

    at: float
    lost: int = Field(description="Events that this viewer was too slow for.")
    output_tokens: int = Field(description="Written by all requests; differences from frame to frame count.")
    events: list[dict[str, Any]] = Field(description="In their order; each has `type` and `at`: docs/start/page.md.")
    state: State
    model: str | None = Field(None, description="This and the next in the first frame alone.")
    context: int | None = None
    queue: int | None = Field(None, description="How many may wait.")
    step_seconds: float | None = Field(None, description="What a step is to take that others share with a prompt.")
    receipts: list[Receipt] | None = Field(None, description="The newest cancels, the newest first.")
