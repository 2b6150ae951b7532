"""One step of several ranks: the sums of its layers, the cancels that ride in them, and its end where a rank fails.

Every layer has the same few sums over all ranks.  In its last one rank 0 adds a row of numbers that no other rank has:
which segments are cancelled.  All ranks read it from the sum, so each drops the same rows at the same layer boundary,
and none goes by its own clock.  One more number says that some rank has failed; any may send it.  A rank that fails
takes part in what is left of the layer's sums, so that none of the others waits for it in vain.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import torch

from runtime.devices.parallel.marks import agree, is_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.step import Segment

CANCELLED = 0.0  # when a rank that follows takes a cancel to have been asked for: it does not know


class StepAborted(RuntimeError):
    """Some rank failed in a step, so all have left it."""


class Sum(NamedTuple):
    """One of the sums of a layer, `[rows, width]`."""

    width: int
    dtype: torch.dtype


class SharedStep:
    """A step under way, as one rank sees it.

    Args:
        segments: of the step, in order, those that are cancelled already among them.
        layers: of the model.
        sums: of each layer, in order.
        device: where they are.
        reduce: adds up a tensor over all ranks, in place.
        leads: whether this is rank 0.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        layers: int,
        sums: Sequence[Sum],
        device: torch.device,
        reduce: Callable[[torch.Tensor], None],
        *,
        leads: bool,
    ) -> None:
        self.segments = [segment for segment in segments if segment.mark.at is None]
        self._layers_left = layers if self.segments else 0
        self._sums = sums
        self._device = device
        self._reduce = reduce
        self._leads = leads
        self._done = 0  # sums of the layer

    @property
    def has_ended(self) -> bool:
        """Return whether no further sum is to come."""
        return not self._layers_left

    def whole(self, part: torch.Tensor) -> torch.Tensor:
        """Add up what each rank has of a sum, `[rows, width]`.

        Raises:
            StepAborted: a rank has failed.
        """
        if self._done + 1 == len(self._sums):
            return self._end_layer(part, failed=False)
        self._done += 1
        summed = part.contiguous()
        self._reduce(summed)
        return summed

    def abort(self) -> None:
        """Let the other ranks leave the step, whatever this one failed at; they are in the same layer."""
        if self.has_ended:
            return
        rows = sum(len(segment.token_ids) for segment in self.segments)
        nothing = [torch.zeros(rows, width, dtype=dtype, device=self._device) for width, dtype in self._sums]
        for part in nothing[self._done : -1]:
            self._reduce(part)
        with suppress(StepAborted):
            self._end_layer(nothing[-1], failed=True)

    def _end_layer(self, part: torch.Tensor, *, failed: bool) -> torch.Tensor:
        """Add up the layer's last sum; then all ranks know who is cancelled, and whether any has failed."""
        rows, width = part.shape
        asked = [float(self._leads and is_asked(segment)) for segment in self.segments]
        said = torch.tensor([float(failed), *asked])
        padded = torch.zeros(-(-len(said) // width), width)  # rows
        padded.view(-1)[: len(said)] = said
        summed = torch.cat((part, padded.to(part)))
        self._reduce(summed)
        any_failed, *cancelled = summed[rows:].flatten()[: len(said)].tolist()
        self._done = 0
        self._layers_left -= 1
        if any_failed:
            self._layers_left = 0
            raise StepAborted("a rank has failed in this step")
        for segment, is_cancelled in zip(self.segments, cancelled, strict=True):
            if is_cancelled:
                agree(segment) if self._leads else segment.mark.set(lambda: CANCELLED)
        self.segments = [segment for segment in self.segments if segment.mark.at is None]
        if not self.segments:
            self._layers_left = 0
        return summed[:rows]
