"""What recurrent layers have in the place of attention, as it is described to the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from runtime.devices.native import structures
from runtime.devices.native.structures import LANES, Convolution, Part, Recurrence, Rule
from runtime.nn.layers.norm import RMSNorm
from runtime.nn.matrices.linear import PlainMatrix
from runtime.nn.matrices.native import NotInKernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ctypes import Array

    from torch import Tensor

    from runtime.devices.native.structures import Rows
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.gated_delta import GatedDelta
    from runtime.nn.layers.mamba2 import Mamba2
    from runtime.nn.layers.norm import Norm
    from runtime.nn.layers.short_conv import ShortConv
    from runtime.nn.matrices.linear import Linear, WeightMatrix
    from runtime.step.step import Segment


class NativeRecurrence:
    """A convolution, and the rule behind it; the parts are named as those of `NativeAttention`.

    Args:
        index: of the layer.
        given: what makes of a row what goes into it.
        output: what becomes of what comes out.
        convolution: described.
        recurrence: likewise; None for a convolution between two gates.
        kept: what the descriptions refer to and nobody else keeps.
        rates: small matrices, of what says how a state decays and is corrected.
    """

    rope: int | None = None
    sees: object = None

    def __init__(
        self,
        index: int,
        given: Linear,
        output: Linear,
        convolution: Convolution,
        recurrence: Recurrence | None,
        kept: object,
        rates: Sequence[WeightMatrix] = (),
    ) -> None:
        self.index, self.input, self.rates, self.output = index, given.matrices, rates, output
        self._kept = kept
        self.fields: dict[str, Any] = {"convolution": convolution}
        if recurrence is not None:
            self.fields["recurrence"] = recurrence

    def place(self, kv: KVCache) -> int:
        """Return where KV would be."""
        return 0

    def keys(self, segment: Segment) -> int:
        """Return how many positions are seen by attention: none."""
        return 0

    def is_in_place(self, batch: LayerRows, kv: KVCache) -> bool:
        """Return whether the states are where the kernels look for them: they always are."""
        return True

    def fill(self, rows: Array[Rows], batch: LayerRows, kv: KVCache) -> list[Callable[[], None]]:
        """Return nothing to be done: the numbers of states are the same for all layers."""
        return []


def native_convolution(conv: ShortConv, index: int, buffers: StateBuffers) -> NativeRecurrence:
    """Describe a convolution between two gates."""
    described, kept = _convolution(conv.weight, conv.bias, buffers.part(index, 0))
    return NativeRecurrence(index, conv.input, conv.output, described, None, kept)


def native_delta(delta: GatedDelta, index: int, buffers: StateBuffers) -> NativeRecurrence:
    """Describe a gated delta rule.  Raises NotInKernels for Kimi's form, and heads that are not in whole vectors."""
    own = delta.config
    if own.gate_rank is not None:
        raise NotInKernels("channels that decay each by itself")
    if own.key_dim % LANES or own.value_dim % LANES:
        raise NotInKernels("recurrent heads of another size")
    convolution, kept = _convolution(delta.conv, None, buffers.part(index, 0))
    rates = PlainMatrix(torch.cat([_in_vectors(delta.rate), _in_vectors(delta.beta)]), None)
    decay, bias = _in_vectors(delta.decay), _in_vectors(delta.rate_bias)
    recurrence = Recurrence(
        rule=Rule.GATED_DELTA,
        heads=own.heads,
        groups=own.key_heads,
        dim=own.value_dim,
        size=own.key_dim,
        gate=own.channels,
        rates=own.channels + own.heads * own.value_dim,
        decay=decay.data_ptr(),
        rate_bias=bias.data_ptr(),
        share=own.beta,
        norm=describe_norm(delta.norm),
        states=_part(buffers.part(index, 1)),
    )
    kept = kept, decay, bias, delta
    return NativeRecurrence(index, delta.input, delta.output, convolution, recurrence, kept, [rates])


def native_state_space(mamba: Mamba2, index: int, buffers: StateBuffers) -> NativeRecurrence:
    """Describe a state space.

    Raises:
        NotInKernels: sizes are not in whole vectors, or it has no norm behind its gates, or factors.
    """
    own = mamba.config
    if own.norm_before_gate or own.factors is not None:
        raise NotInKernels("a norm before a gate, or factors")
    if own.head_dim % LANES or own.size % LANES or own.heads % LANES:
        raise NotInKernels("recurrent heads of another size, or number")
    convolution, kept = _convolution(mamba.conv, mamba.conv_bias, buffers.part(index, 0))
    recurrence = Recurrence(
        rule=Rule.STATE_SPACE,
        heads=own.heads,
        groups=own.groups,
        dim=own.head_dim,
        size=own.size,
        convolved=own.inner,
        rates=own.inner + own.channels,
        decay=mamba.decay.data_ptr(),
        rate_bias=mamba.rate_bias.data_ptr(),
        skip=mamba.skip.data_ptr(),
        norm=describe_norm(mamba.norm),
        states=_part(buffers.part(index, 1)),
    )
    return NativeRecurrence(index, mamba.input, mamba.output, convolution, recurrence, (kept, mamba))


def describe_norm(norm: Norm) -> structures.Norm:
    """Describe a norm.  Raises NotInKernels for another kind."""
    if not isinstance(norm, RMSNorm):
        raise NotInKernels("another norm")
    return structures.Norm(weight=norm.scaled.data_ptr(), least=norm.least)


def _convolution(weight: Tensor, bias: Tensor | None, states: Tensor) -> tuple[Convolution, object]:
    """Describe a convolution; returns also what the description refers to."""
    channels, _, width = weight.shape
    taps = weight.squeeze(1).t().float().contiguous()  # a row's own is the last
    biases = None if bias is None else bias.float()
    described = Convolution(
        taps=taps.data_ptr(),
        bias=None if biases is None else biases.data_ptr(),
        width=width,
        channels=channels,
        kept=_part(states),
    )
    return described, (taps, biases)


def _part(states: Tensor) -> Part:
    return Part(first=states.data_ptr(), stride=states.stride(0) * states.itemsize)


def _in_vectors(x: Tensor) -> Tensor:
    """Return `[heads, …]` with zeros behind it, in whole vectors of heads."""
    return F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % LANES)).contiguous()
