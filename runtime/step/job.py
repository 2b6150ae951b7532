"""What an executor is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.burst import Burst
    from runtime.step.step import Segment

LayerHook: TypeAlias = "Callable[[], None]"


@dataclass(frozen=True, slots=True)
class StepJob:
    """What an executor is to run: one step, or a burst of them.

    Attributes:
        segments: the rows to compute.
        drafting: run it on the drafter, and not on the target.
        layer_done: called at the end of each layer, where the step runs: on the device thread, or in this task.
        burst: the steps that may follow; None for none.
    """

    segments: Sequence[Segment]
    drafting: bool = False
    layer_done: LayerHook | None = None
    burst: Burst | None = None
