"""A step in progress, as the layers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from runtime.devices.single_rows.rows import SingleRows
    from runtime.nn.layers.recurrent import StateRows
    from runtime.sampling.batch import SamplingBatch
    from runtime.sampling.staging import StagingBuffer
    from runtime.step.prompt_rows.gather import PromptRows
    from runtime.step.step import Segment

    # Cosines and sines of the rows' positions, each [rows, 1, head_dim].
    Rotation = tuple[torch.Tensor, torch.Tensor]

    # A layer's window, and the query heads of one of its KV heads.
    MaskKind = tuple[int | None, int]

    # From what this rank has of a sum, [rows, width], to the sum.
    Whole = Callable[[torch.Tensor], torch.Tensor]


def alone(part: torch.Tensor) -> torch.Tensor:
    """Return what a model on one device has of a sum: all of it."""
    return part


@dataclass(slots=True, kw_only=True)
class LayerRows:
    """A step's rows, as a layer sees them: a row for each token of each segment, in order."""

    segments: list[Segment]
    ranges: list[range]  # each segment's rows
    hidden: torch.Tensor  # [rows, hidden], or of several streams [rows, streams, hidden]
    rotations: list[Rotation]  # for each of the model's rotary embeddings (`ModelConfig.distinct_ropes`)
    query_scale: torch.Tensor | None = None  # float32 [rows, 1, 1], where queries are scaled by their position
    masks: dict[MaskKind, torch.Tensor | None]  # as `step_mask` makes them
    whole: Whole = alone  # adds up what each rank has of a sum
    layer_inputs: torch.Tensor | None = None  # [rows, layers, size], where the layers are given any
    states: StateRows | None = None  # of recurrent layers
    single: SingleRows | None = None  # where attention takes them one by one, and not by segments

    @property
    def with_states(self) -> StateRows:
        """The rows of a step as a recurrent layer sees them."""
        assert self.states is not None, "a model with recurrent layers has buffers for their states"
        return self.states

    def part(self, places: slice) -> LayerRows:
        """Return some of the segments, which follow each other: what lies in their rows is the same memory."""
        ranges = self.ranges[places]
        return self._of(self.segments[places], ranges, range(ranges[0].start, ranges[-1].stop))

    def piece(self, rows: range) -> LayerRows:
        """Return some of the rows, which follow each other, with what is there of their segments; in the same memory.

        The rows of a segment that come before these are to have their KV already, and have left a state.
        """
        segments, ranges = [], []
        for segment, own in zip(self.segments, self.ranges, strict=True):
            there = range(max(own.start, rows.start), min(own.stop, rows.stop))
            if there:
                segments.append(segment.piece(there.start - own.start, there.stop - own.start))
                ranges.append(there)
        return self._of(segments, ranges, rows)

    def _of(self, segments: list[Segment], ranges: list[range], whole: range) -> LayerRows:
        """Return these segments, whose rows are `whole` together."""
        first, rows = whole.start, slice(whole.start, whole.stop)
        ranges = [range(own.start - first, own.stop - first) for own in ranges]
        return LayerRows(
            segments=segments,
            ranges=ranges,
            hidden=self.hidden[rows],
            rotations=[(cos[rows], sin[rows]) for cos, sin in self.rotations],
            query_scale=None if self.query_scale is None else self.query_scale[rows],
            masks=self.masks,
            whole=self.whole,
            layer_inputs=None if self.layer_inputs is None else self.layer_inputs[rows],
            states=None if self.states is None else self.states.apart(segments, ranges),
        )


@dataclass(slots=True, kw_only=True)
class Batch(LayerRows):
    """A step in progress: the segments still in it, and what is done behind the layers."""

    places: torch.Tensor  # [rows], where they lie in the pool of KV
    positions: torch.Tensor  # [rows], in their sequences
    sampled_rows: torch.Tensor  # [sampled rows], the rows after which a token is drawn
    sampling: SamplingBatch  # what these ask for
    prompt_rows: PromptRows  # what rows of prompts give besides KV
    recorded: int = 0  # of so many rows are the recorded layers that compute it; 0 where none do
    layers_ahead: int = 0  # that the device was given before anybody asked for the step (`runtime.nn.ahead_model`)
    sent: StagingBuffer | None = None  # what may still be on its way to the device
