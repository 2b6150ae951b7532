"""Rows of a step in recurrent layers: each segment's go on from the state of its sequence.

Segments of one row, as in decoding, are computed together: their states are gathered, and written, by the numbers of
their buffers.  The rows of any other segment are computed by themselves, in pieces that end where a state is wanted.
Where a device has kernels for it, those of all segments of a step of few rows are computed in one launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.devices.single_rows.rows import are_few
from runtime.devices.single_rows.states import StateTable, state_numbers
from runtime.nn.recurrent.convolution import causal_conv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from runtime.devices.single_rows.states import StateKernels
    from runtime.kv.states import StateBuffers
    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.step.step import Segment

    # From parts of rows, and the state before these, to what becomes of them, and the state behind them.
    Rule = Callable[..., tuple[Tensor, Tensor]]


@dataclass(slots=True)
class StateRows:
    """The rows of a step, with the states that they go on from.

    Attributes:
        buffers: of the states.
        singles: how many segments of one row are computed together.
        runs: the other segments, each with its rows.
        numbers: of the singles, staged: their rows, the buffers that they go on from, and those that they write; or
            what `table` is made of.
        kernels: compute all rows, and neither singles nor runs are there; None where PyTorch's operations do.
        sequences: how many the kernels compute.
    """

    buffers: StateBuffers
    singles: int
    runs: list[tuple[slice, Segment]]
    numbers: StagedTensor
    kernels: StateKernels | None = None
    sequences: int = 0

    @classmethod
    def stage(
        cls,
        buffers: StateBuffers,
        segments: Sequence[Segment],
        ranges: Sequence[range],
        staging: StagingBuffer,
        kernels: StateKernels | None = None,
    ) -> StateRows:
        """Stage what a step's segments read and write; `kernels` are for its rows if they are few."""
        if kernels is not None and are_few(segments):
            return cls(buffers, 0, [], staging.ints(state_numbers(segments, buffers)), kernels, len(segments))
        rows, read, written = list[int](), list[int](), list[int]()
        runs = []
        for segment, own in zip(segments, ranges, strict=True):
            if len(own) == len(segment.next_states) == 1:
                rows.append(own.start)
                read.append(buffers.number(segment.state))
                written.append(segment.next_states[0][1])
            else:
                runs.append((slice(own.start, own.stop), segment))
        return cls(buffers, len(rows), runs, staging.ints(rows, read, written))

    def apart(self, segments: Sequence[Segment], ranges: Sequence[range]) -> StateRows:
        """Return some of the segments, in these rows, each computed by itself."""
        runs = [(slice(own.start, own.stop), segment) for segment, own in zip(segments, ranges, strict=True)]
        return StateRows(self.buffers, 0, runs, self.numbers)

    @property
    def table(self) -> StateTable:
        """Of the rows, for kernels; the numbers were sent."""
        return StateTable(self.numbers.tensor, self.sequences)

    def convolve(self, layer: int, rows: Tensor, weight: Tensor, bias: Tensor | None, *, silu: bool = False) -> Tensor:
        """Convolve rows, `[rows, channels]`, behind those that are the first part of the layer's state.

        Args:
            layer: its index.
            rows: of the step.
            weight: `[channels, 1, width]`, as files have it.
            bias: `[channels]`, or None.
            silu: whether what comes out goes through SiLU.
        """
        kept = self.buffers.part(layer, 0)
        if self.kernels is not None:
            return self.kernels.convolve(rows, weight, bias, kept, self.table, silu=silu)
        out, weight = torch.empty_like(rows), weight.squeeze(1)
        if self.singles:
            places, read, written = self.numbers.tensor.view(3, -1)
            mixed, seen = causal_conv(rows[places].unsqueeze(1), weight, bias, kept[read])
            out[places], kept[written] = mixed.squeeze(1), seen[:, 1:]
        for own, segment in self.runs:
            out[own], seen = causal_conv(rows[own], weight, bias, kept[self.buffers.number(segment.state)])
            for count, buffer in segment.next_states:
                kept[buffer] = seen.narrow(0, count, kept.shape[1])
        return F.silu(out) if silu else out

    def recur(self, layer: int, parts: Sequence[Tensor], like: Tensor, step: Rule, scan: Rule) -> Tensor:
        """Run rows through a rule of PyTorch's operations, from the second part of the layer's state on.

        Args:
            layer: its index.
            parts: what the rule takes of each row, `[rows, …]`.
            like: has the shape of what becomes of the rows, and its dtype.
            step: the rule for one row of each of several sequences.
            scan: the rule for rows of one sequence.
        """
        kept, out = self.buffers.part(layer, 1), torch.empty_like(like)
        if self.singles:
            places, read, written = self.numbers.tensor.view(3, -1)
            out[places], kept[written] = step(*(part[places] for part in parts), kept[read])
        for own, segment in self.runs:
            done, state = own.start, kept[self.buffers.number(segment.state)]
            for count, buffer in chain(segment.next_states, [(len(segment.token_ids), None)]):
                end = own.start + count
                if end > done:
                    out[done:end], state = scan(*(part[done:end] for part in parts), state)
                if buffer is not None:
                    kept[buffer] = state
                done = end
        return out
