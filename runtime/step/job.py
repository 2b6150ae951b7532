"""Jobs of an executor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.step import Segment

LayerHook: TypeAlias = "Callable[[int], None]"


@dataclass(frozen=True, slots=True)
class Burst:
    """Bounds of a burst.

    Attributes:
        steps: of how many at a time the event loop is told.
        most: steps that it may have in all.
        may_go_on: whether nothing has come meanwhile that steps are to wait for; asked before each step but the first,
            where steps run: on the device thread.
    """

    steps: int
    most: int
    may_go_on: Callable[[], bool]

    @property
    def unheard(self) -> int:
        """Return how many steps may have run, in part at least, when whoever awaits the next result has it."""
        return min(2 * self.steps, self.most)


@dataclass(frozen=True, slots=True)
class StepJob:
    """Job of an executor: one step, or a burst of them.

    Attributes:
        segments: the rows to compute.
        drafting: run it on the drafter, and not on the target.
        layer_done: called at the end of each layer, where the step runs: on the device thread, or in this task; with
            the number of steps of the same burst that went before.
        burst: the steps that may follow; None for none.
        before: steps of the same burst that were told of already.
        layers_ahead: layers of the first step that the device has been given already.
    """

    segments: Sequence[Segment]
    drafting: bool = False
    layer_done: LayerHook | None = None
    burst: Burst | None = None
    before: int = 0
    layers_ahead: int = 0

    def following(self, segments: Sequence[Segment], steps: int, layers_ahead: int = 0) -> StepJob:
        """Return what its burst goes on with once so many steps of it have run, and such a part of the next."""
        assert self.burst is not None
        left = self.burst.most - steps
        burst = replace(self.burst, steps=min(self.burst.steps, left), most=left)
        before = self.before + steps
        return replace(self, segments=segments, burst=burst, before=before, layers_ahead=layers_ahead)
