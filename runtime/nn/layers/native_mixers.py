"""What mixes a layer's rows with those before them, as it is described to the kernels: attention, or recurrence."""

from __future__ import annotations

from ctypes import addressof
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from runtime.checkpoint.families.activations import OutputGate
from runtime.devices.native.structures import LANES, Rows, State, Step
from runtime.kv.cache import Addresses
from runtime.kv.pages import NO_PAGES
from runtime.kv.states import StateBuffers
from runtime.nn.layers.attention import first_visible
from runtime.nn.layers.gated_delta import GatedDelta
from runtime.nn.layers.mamba2 import Mamba2
from runtime.nn.layers.native_recurrent import (
    NativeRecurrence,
    describe_norm,
    native_convolution,
    native_delta,
    native_state_space,
)
from runtime.nn.layers.query_key_norm import HeadNorm
from runtime.nn.layers.self_attention import SelfAttention
from runtime.nn.layers.short_conv import ShortConv
from runtime.nn.matrices.native import NotInKernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ctypes import Array

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.decoder_layer import DecoderLayer
    from runtime.nn.matrices.linear import WeightMatrix
    from runtime.step.step import Segment

SIGMOID_GATE = OutputGate("sigmoid")


class NativeAttention:
    """Attention; in the place of KV that is not in one piece, the kernels are given copies.

    Args:
        attention: whose weights it uses.
        config: the model's.
        index: of the layer.

    Attributes:
        input: matrices of queries, keys, values and gates.
        rates: small matrices behind those: none.
        output: of what is attended to.
        fields: of `structures.Layer`.
        index: of the layer.
        rope: which of the rotations; None where nothing is rotated.
        sees: what layers of the same kind have in common whose rows see the same.

    Raises:
        NotInKernels: the kernels do not have what it is made of.
    """

    def __init__(self, attention: SelfAttention, config: ModelConfig, index: int) -> None:
        rope = config.ropes[index]
        if not isinstance(attention.query_key_norm, HeadNorm | None):
            raise NotInKernels("a norm of all heads together")
        if config.sinks or config.scales.attention_softcap is not None:
            raise NotInKernels("sinks or capped scores")
        if config.output_gate not in (None, SIGMOID_GATE):
            raise NotInKernels("gates of another kind")
        rotated = 0 if rope is None else rope.rotary_dim
        if rotated % (2 * LANES) or config.head_dim % (2 * LANES):
            raise NotInKernels("heads of another size, or of which another part is rotated")
        self.input, self.output = attention.qkv.matrices, attention.output
        self.rates: Sequence[WeightMatrix] = ()
        self.rope = attention.rope
        self.index, self._window = index, config.window[index]
        self.sees: object = (self._window, self.rope)
        self.fields: dict[str, Any] = {
            "heads": config.num_heads,
            "kv_heads": config.num_kv_heads,
            "dim": config.head_dim,
            "window": self._window or 0,
            "rotary": rotated,
            "norms_rotated": config.qk_norm_rotated,
            "is_gated": config.output_gate is not None,
            "attention_scale": config.scales.attention,
        }
        if attention.query_key_norm is not None:
            self.fields["head"] = describe_norm(attention.query_key_norm.joint)

    def place(self, kv: KVCache) -> int:
        """Return the address of its KV."""
        return kv.addresses(self.index, 0, 0, NO_PAGES).keys

    def keys(self, segment: Segment) -> int:
        """Return how many positions a segment's rows see."""
        return segment.end - first_visible(segment, self._window)

    def is_in_place(self, batch: LayerRows, kv: KVCache) -> bool:
        """Return whether the KV of each segment is in one piece."""
        return all(kv.is_whole(self.index, segment.end - self.keys(segment), segment.end) for segment in batch.segments)

    def fill(self, rows: Array[Rows], batch: LayerRows, kv: KVCache) -> list[Callable[[], None]]:
        """Say where the KV of all segments is; returns what is to be done when the kernels are."""
        copied: list[Callable[[], None]] = []
        for own, segment in zip(rows, batch.segments, strict=True):
            own.length = self.keys(segment)
            first = segment.end - own.length
            if kv.is_whole(self.index, first, segment.end):
                at = kv.addresses(self.index, segment.slot, first, segment.pages)
            else:
                keys, values = kv.read(self.index, segment.slot, first, segment.end, segment.pages)
                copied.append(partial(self._write_back, segment, (keys, values), kv))
                at = Addresses(keys.data_ptr(), values.data_ptr(), keys.stride(0), 0, kv.one_piece)
            own.keys, own.values, own.head_stride = at.keys, at.values, at.head
            own.first, own.pages = at.first, at.pages.address
        return copied

    def _write_back(self, segment: Segment, copied: Sequence[Tensor], kv: KVCache) -> None:
        """Write the new rows of copies: of a ring that ends among the positions that were read."""
        written = torch.stack([part[:, segment.start - segment.end :] for part in copied])
        kv.write(self.index, segment.slot, segment.start, written, segment.pages)


NativeMixer: TypeAlias = NativeAttention | NativeRecurrence


def native_mixer(layer: DecoderLayer, config: ModelConfig, index: int, buffers: StateBuffers | None) -> NativeMixer:
    """Describe what mixes a layer's rows.  Raises NotInKernels."""
    if isinstance(layer.attention, SelfAttention):
        return NativeAttention(layer.attention, config, index)
    assert buffers is not None or config.recurrent[index] is None, "recurrent layers have buffers for their states"
    match layer.attention, buffers:
        case ShortConv() as conv, StateBuffers():
            return native_convolution(conv, index, buffers)
        case GatedDelta() as delta, StateBuffers():
            return native_delta(delta, index, buffers)
        case Mamba2() as mamba, StateBuffers():
            return native_state_space(mamba, index, buffers)
        case _:
            raise NotInKernels("latent attention, two mixers, or none")


def rows_of(batch: LayerRows) -> Array[Rows]:
    """Return the rows of all segments and the numbers of their states, without what mixers fill in."""
    rows = (Rows * len(batch.segments))()
    for own, segment, places in zip(rows, batch.segments, batch.ranges, strict=True):
        own.first_row, own.rows = places.start, len(places)
        if batch.states is not None:
            own.state, own.wanted = batch.states.buffers.number(segment.state), len(segment.next_states)
            own.states = (State * own.wanted)(*segment.next_states)
    return rows


def step_of(batch: LayerRows, rows: Array[Rows], rope: int | None) -> Step:
    """Describe a step of these rows, which are to be kept as long as it is used, for layers that rotate in this way."""
    hidden = batch.hidden
    cos, sin = (None, None) if rope is None else batch.rotations[rope]
    return Step(
        rows=hidden.shape[0],
        segments=len(rows),
        threads=torch.get_num_threads(),
        hidden=hidden.data_ptr(),
        cos=None if cos is None else cos.data_ptr(),
        sin=None if sin is None else sin.data_ptr(),
        query_scale=None if batch.query_scale is None else batch.query_scale.data_ptr(),
        segment=addressof(rows),
    )
