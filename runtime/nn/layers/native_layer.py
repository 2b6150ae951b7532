"""A decoder layer by `runtime.devices.native`: few rows in one call, with the weights of the layer that it stands for.

Many rows, as a chunk of a prompt has, go through the kernels in pieces where that is faster: where they multiply bytes,
unless bfloat16 rows attend to many keys, which PyTorch's attention takes less time for (bench/LOG.md).  Others are
PyTorch's.

What the kernels make of a row does not depend, not by a bit, on how many rows there are beside it: no sum's order does.
Of PyTorch's products that cannot be said.  So where results are to be the same whoever else is served, the kernels
compute all rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from ctypes import addressof
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import torch

from runtime.common.units import counted
from runtime.devices.native import structures
from runtime.devices.native.structures import LANES, MOST_ROWS, OF_BYTES, Layer, Rows, Step
from runtime.nn.layers.attention import first_visible
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.norm import NoNorm, RMSNorm
from runtime.nn.layers.query_key_norm import HeadNorm
from runtime.nn.layers.self_attention import SelfAttention
from runtime.nn.matrices.native import NotInKernels, native_matrices, native_matrix
from runtime.nn.matrices.native_product import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ctypes import Array

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.native.kernels import Kernels
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.decoder_layer import DecoderLayer
    from runtime.nn.layers.norm import Norm
    from runtime.nn.matrices.native import NativeMatrix
    from runtime.step.step import Segment

AnyLayer: TypeAlias = "DecoderLayer | NativeLayer"

ACTIVATIONS = ("silu", "gelu_tanh")

# Up to so many, many bfloat16 rows attend by the kernels, too: with more, PyTorch's attention gains what its products
# lose (bench/LOG.md).
MOST_KEYS = 1024

logger = logging.getLogger("cede.model")


class NativeLayer:
    """Computes what a layer does, to the rounding of sums; of a segment with many rows, perhaps the layer itself does.

    Args:
        layer: whose weights it uses.
        index: of the layer.
        config: the model's.
        dtype: of the rows and the KV.
        kernels: compute it.
        deterministic: whether they compute all rows, so that no row depends on its neighbours.

    Attributes:
        index: of the layer.
        kernels: compute it.
        described: the layer, for them.

    Raises:
        NotInKernels: the kernels do not have what the layer is made of.
    """

    def __init__(
        self,
        layer: DecoderLayer,
        index: int,
        config: ModelConfig,
        dtype: torch.dtype,
        kernels: Kernels,
        *,
        deterministic: bool = False,
    ) -> None:
        attention, mlp = _parts(layer, index, config, dtype)
        qkv, gate_up = native_matrices(attention.qkv), native_matrices(mlp.gate_up)
        output, down = native_matrix(attention.output), native_matrix(mlp.down)
        self._matrices = [*qkv, output, *gate_up, down]  # the description refers to what these keep
        self._block = _block(*self._matrices)
        if self._block is not None and self._block not in kernels.targets:
            raise NotInKernels("blocks of another size")
        if config.intermediate_size % gate_up[0].piece:
            raise NotInKernels("an inner width that is not in whole pieces")
        self._layer = layer
        of_bytes = all(matrix.described.kind in OF_BYTES for matrix in self._matrices)
        self._takes_all = deterministic or (of_bytes and dtype == torch.float32)
        self._most_keys = MOST_KEYS if of_bytes else 0
        self.index, rope = index, config.ropes[index]
        self._rope = attention.rope
        self._window = config.window[index]
        self.kernels = kernels
        self.described = Layer(
            hidden=config.hidden_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            dim=config.head_dim,
            inner=config.intermediate_size,
            is_bfloat16=dtype == torch.bfloat16,
            window=self._window or 0,
            is_gelu=config.activation == "gelu_tanh",
            rotary=0 if rope is None else rope.rotary_dim,
            norms_rotated=config.qk_norm_rotated,
            before_attention=_norm(layer.before_attention),
            after_attention=_norm_or_none(layer.after_attention),
            before_mlp=_norm(layer.before_mlp),
            after_mlp=_norm_or_none(layer.after_mlp),
            attention_scale=config.scales.attention,
            residual_scale=config.scales.residual,
            qkv=qkv[0].described,
            output=output.described,
            gate_up=gate_up[0].described,
            down=down.described,
        )
        if isinstance(attention.query_key_norm, HeadNorm):
            self.described.head = _norm(attention.query_key_norm.joint)

    @property
    def target(self) -> int:
        """The number of the kernels' target that computes it."""
        return self.kernels.target(self._block)

    def is_alike(self, other: NativeLayer) -> bool:
        """Return whether another layer of the model sees as far, and rotates alike."""
        return (self._window, self._rope) == (other._window, other._rope)

    def __call__(self, batch: LayerRows, kv: KVCache) -> None:
        """Transform the hidden states of all rows, in place, and write their KV."""
        if self._takes_all or batch.hidden.shape[0] <= MOST_ROWS:
            self._run_in_pieces(batch, kv)
            return
        for places, taken in in_parts([self._takes(segment) for segment in batch.segments]):
            (self._run_in_pieces if taken else self._layer)(batch.part(places), kv)

    def _takes(self, segment: Segment) -> bool:
        """Return whether the kernels are to compute a segment."""
        keys = segment.end - first_visible(segment, self._window)
        return segment.end - segment.start <= MOST_ROWS or keys <= self._most_keys

    def _run_in_pieces(self, batch: LayerRows, kv: KVCache) -> None:
        rows = batch.hidden.shape[0]
        if rows <= MOST_ROWS:
            self._run(batch, kv)
            return
        for first in range(0, rows, MOST_ROWS):
            self._run(batch.piece(range(first, min(rows, first + MOST_ROWS))), kv)

    def _run(self, batch: LayerRows, kv: KVCache) -> None:
        rows, copied = self._rows(batch, kv)
        self.kernels.run_layer(self.described, self.step(batch, rows), self._block)
        for segment, parts in copied:  # of a ring that ends among the positions that were read
            written = torch.stack([part[:, segment.start - segment.end :] for part in parts])
            kv.write(self.index, segment.slot, segment.start, written, segment.origin)

    def _rows(self, batch: LayerRows, kv: KVCache) -> tuple[Array[Rows], list[tuple[Segment, Sequence[Tensor]]]]:
        """Return the rows of all segments, and the KV of those that do not have it in one piece, as copies."""
        rows = (Rows * len(batch.segments))()
        copied: list[tuple[Segment, Sequence[Tensor]]] = []
        for own, segment, places in zip(rows, batch.segments, batch.ranges, strict=True):
            first = first_visible(segment, self._window)
            own.first_row, own.rows, own.length = places.start, len(places), segment.end - first
            if kv.is_whole(self.index, first, segment.end):
                own.keys, own.values, own.head_stride = kv.addresses(self.index, segment.slot, first, segment.origin)
            else:
                keys, values = kv.read(self.index, segment.slot, first, segment.end, segment.origin)
                copied.append((segment, (keys, values)))
                own.keys, own.values, own.head_stride = keys.data_ptr(), values.data_ptr(), keys.stride(0)
        return rows, copied

    def rows_in_place(self, batch: LayerRows, kv: KVCache) -> Array[Rows] | None:
        """Return the rows of all segments; None where a segment's KV is not in one piece."""
        visible = [(first_visible(segment, self._window), segment.end) for segment in batch.segments]
        if not all(kv.is_whole(self.index, first, end) for first, end in visible):
            return None
        return self._rows(batch, kv)[0]

    def step(self, batch: LayerRows, rows: Array[Rows]) -> Step:
        """Describe a step of these rows, which are to be kept as long as it is used."""
        hidden = batch.hidden
        cos, sin = (None, None) if self._rope is None else batch.rotations[self._rope]
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


def in_parts(taken: Sequence[bool]) -> list[tuple[slice, bool]]:
    """Split a step's segments into parts that follow each other, all of whose segments are taken, or none.

    Returns:
        Each part's place among the segments, and which it is.

    >>> in_parts([True, True, False, True])
    [(slice(0, 2, None), True), (slice(2, 3, None), False), (slice(3, 4, None), True)]
    """
    parts: list[tuple[slice, bool]] = []
    for are_taken, own in groupby(taken):
        first = parts[-1][0].stop if parts else 0
        parts.append((slice(first, first + len(list(own))), are_taken))
    return parts


def with_native_layers(
    layers: Sequence[DecoderLayer],
    config: ModelConfig,
    dtype: torch.dtype,
    kernels: Kernels,
    *,
    deterministic: bool = False,
) -> list[AnyLayer]:
    """Return what computes each layer: the kernels those that they can, and the layers themselves the others.

    The log says how many the kernels cannot, and why.

    Args:
        layers: of the model.
        config: the model's.
        dtype: of the rows and the KV.
        kernels: compute them.
        deterministic: whether the kernels are to compute all rows of all layers.

    Raises:
        NotInKernels: they are to, and cannot.
    """
    chosen: list[AnyLayer] = []
    refused: Counter[str] = Counter()
    for index, layer in enumerate(layers):
        try:
            chosen.append(NativeLayer(layer, index, config, dtype, kernels, deterministic=deterministic))
        except NotInKernels as why:
            if deterministic:
                raise
            chosen.append(layer)
            refused[str(why)] += 1
    for reason, layers_without in refused.items():
        logger.info("the kernels do not compute %s: %s", counted(layers_without, "layer"), reason)
    return chosen


def _parts(layer: DecoderLayer, index: int, config: ModelConfig, dtype: torch.dtype) -> tuple[SelfAttention, GatedMlp]:
    """Return attention and MLP of a layer that has nothing which the kernels do not.  Raises NotInKernels."""
    attention, mlp, norms, rope = layer.attention, layer.mlp, config.norms, config.ropes[index]
    if not isinstance(attention, SelfAttention) or not isinstance(mlp, GatedMlp):
        raise NotInKernels("latent attention, recurrence, or experts")
    if config.layer_shapes or config.layer_scalars or config.qk_norm == "with_values":
        raise NotInKernels("layers of other sizes each, scaled layers, or norms of values")
    if norms.parallel:
        raise NotInKernels("attention and MLP side by side")
    if not isinstance(attention.query_key_norm, HeadNorm | None):
        raise NotInKernels("a norm of all heads together")
    if config.sinks or config.output_gate or config.scales.attention_softcap is not None:
        raise NotInKernels("gates, sinks, or capped scores")
    rotated = 0 if rope is None else rope.rotary_dim
    if rotated % (2 * LANES) or config.head_dim % (2 * LANES):
        raise NotInKernels("heads of another size, or of which another part is rotated")
    if config.activation not in ACTIVATIONS or dtype not in DTYPES:
        raise NotInKernels("another activation or dtype")
    return attention, mlp


def _block(*matrices: NativeMatrix) -> int | None:
    """Return the outputs of a block; None if no matrix is in blocks.  Raises NotInKernels if they differ."""
    blocks = {matrix.block for matrix in matrices if matrix.block is not None}
    if len(blocks) > 1:
        raise NotInKernels("matrices in other layouts")
    return blocks.pop() if blocks else None


def _norm(norm: Norm) -> structures.Norm:
    """Describe a norm.  Raises NotInKernels for another kind."""
    if not isinstance(norm, RMSNorm):
        raise NotInKernels("another norm")
    return structures.Norm(weight=norm.scaled.data_ptr(), least=norm.least)


def _norm_or_none(norm: Norm) -> structures.Norm:
    """Likewise of a norm that may be none."""
    return structures.Norm() if isinstance(norm, NoNorm) else _norm(norm)
