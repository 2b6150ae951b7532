"""Events of the feed.  Times are seconds since the epoch, on the receipts' clock."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.observability.inspection.answers import LiveRequest, Receipt, Slot
from web.storage.detached.answers import DetachableRequest


class State(TypedDict):
    """State of the engine when a frame is made."""

    health: Annotated[str | None, Field(description="Why it does not serve; null while it does.")]
    requests: Annotated[list[LiveRequest], Field(description="The live ones, the oldest first; a key sees its own.")]
    detachable: Annotated[list[DetachableRequest], Field(description="As `/v1/requests` has them, forty at most.")]
    slots: list[Slot]
    statistics: Annotated[
        dict[str, Any], Field(description="As `/v1/statistics` has them, without `tasks` and `loop`.")
    ]


class Frame(TypedDict):
    """Events since the frame before, and how the engine stands now."""

    at: float
    lost: Annotated[int, Field(description="Events that this viewer was too slow for.")]
    output_tokens: Annotated[int, Field(description="Written by all requests; differences from frame to frame count.")]
    events: Annotated[
        list[dict[str, Any]], Field(description="In their order; each has `type` and `at`: docs/start/page.md.")
    ]
    state: State
    model: NotRequired[Annotated[str | None, Field(description="This and the next in the first frame alone.")]]
    context: NotRequired[int | None]
    queue: NotRequired[Annotated[int | None, Field(description="How many may wait.")]]
    step_seconds: NotRequired[
        Annotated[float | None, Field(description="What a step is to take that others share with a prompt.")]
    ]
    receipts: NotRequired[Annotated[list[Receipt] | None, Field(description="The newest cancels, the newest first.")]]
