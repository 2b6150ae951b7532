"""States of recurrent layers in steps of few rows: where rows go on from and lead to, and the interface of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.devices.single_rows.rows import NO_PLACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.checkpoint.recurrent_config import GatedDeltaConfig, Mamba2Config
    from runtime.kv.states import StateBuffers
    from runtime.step.step import Segment


@dataclass(frozen=True, slots=True)
class StateTable:
    """Table of the states that a step's rows go on from, and leave.

    Attributes:
        numbers: int64 `[2 * sequences + 1 + rows]`: the first row of each sequence, and behind the last the number of
            rows; the buffer that each sequence goes on from; and for each row the buffer that the state behind it goes
            to, -1 where nobody wants it.
        sequences: how many there are.
    """

    numbers: Tensor
    sequences: int


def state_numbers(segments: Sequence[Segment], buffers: StateBuffers) -> list[int]:
    """Return the numbers of a `StateTable`, one after the other."""
    firsts, written = [0], list[int]()
    for segment in segments:
        rows, left = len(segment.token_ids), dict(segment.next_states)
        firsts.append(firsts[-1] + rows)
        written += (left.get(count, NO_PLACE) for count in range(1, rows + 1))
    return [*firsts, *(buffers.number(segment.state) for segment in segments), *written]


class StateKernels(Protocol):
    """The launches: each reads the states before all rows, and writes those behind them that are wanted."""

    def convolve(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None, kept: Tensor, table: StateTable, *, silu: bool
    ) -> Tensor:
        """Convolve all rows, each channel by itself.

        Args:
            rows: `[rows, channels]`; the last axis is contiguous.
            weight: `[channels, 1, width]`; the last column is a row's own.
            bias: `[channels]`, or None.
            kept: the states, `[buffers, width - 1, channels]`.
            table: of the rows.
            silu: whether what comes out goes through SiLU.

        Returns:
            `[rows, channels]`.
        """

    def delta(
        self,
        config: GatedDeltaConfig,
        given: tuple[Tensor, Tensor, Tensor],
        decay: Tensor,
        rate_bias: Tensor,
        states: Tensor,
        table: StateTable,
    ) -> Tensor:
        """Run all rows through the gated delta rule.

        Args:
            config: of the rule.
            given: of the rows, each contiguous: what the convolution gives, `[rows, channels]`; what decay is made of,
                `[rows, heads]` or `[rows, heads * key_dim]`; and what the share that is corrected is, `[rows, heads]`.
            decay: float32 `[heads, 1]`, none above zero.
            rate_bias: float32 `[heads, 1]` or `[heads, key_dim]`.
            states: float32 `[buffers, heads, key_dim, value_dim]`.
            table: of the rows.

        Returns:
            `[rows, heads, value_dim]`.
        """

    def state_space(
        self,
        config: Mamba2Config,
        given: tuple[Tensor, Tensor],
        decay: Tensor,
        rate_bias: Tensor,
        skip: Tensor,
        states: Tensor,
        table: StateTable,
    ) -> Tensor:
        """Run all rows through Mamba 2's model.

        Args:
            config: of the model.
            given: of the rows: what the convolution gives, `[rows, channels]`, contiguous; and what the time that
                passes is made of, `[rows, heads]`, whose last axis is.
            decay: float32 `[heads]`, below zero.
            rate_bias: float32 `[heads]`.
            skip: float32 `[heads]`.
            states: float32 `[buffers, heads, head_dim, size]`.
            table: of the rows.

        Returns:
            `[rows, heads, head_dim]`.
        """
