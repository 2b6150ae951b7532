"""A decoder layer by `runtime.devices.native`: few rows in one call, with the weights of the layer that it stands for.

Many rows, as a chunk of a prompt has, go through the kernels in pieces where that is faster: where they multiply bytes,
unless bfloat16 rows attend to many keys, which PyTorch's attention takes less time for (bench/LOG.md).  Others are
PyTorch's, but for what is between the products of a recurrent layer.

What the kernels make of a row does not depend, not by a bit, on how many rows there are beside it: no sum's order does.
Of PyTorch's products that cannot be said.  So where results are to be the same whoever else is served, the kernels
compute all rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from runtime.common.units import counted
from runtime.devices.native import structures
from runtime.devices.native.structures import MOST_ROWS, OF_BYTES, Layer
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.native_mixers import native_mixer, rows_of, step_of
from runtime.nn.layers.native_recurrent import NativeRecurrence, describe_norm
from runtime.nn.layers.norm import NoNorm
from runtime.nn.layers.self_attention import SelfAttention
from runtime.nn.matrices.native import NotInKernels, native_matrices, native_matrix
from runtime.nn.matrices.native_product import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.native.kernels import Kernels
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers
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
        buffers: for the states of recurrent layers.

    Attributes:
        index: of the layer.
        kernels: compute it.
        described: the layer, for them.
        mixer: what it has of attention, or in the place of that.

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
        buffers: StateBuffers | None = None,
    ) -> None:
        mlp = _mlp(layer, config, dtype)
        self.mixer = native_mixer(layer, config, index, buffers)
        given, output = native_matrices([*self.mixer.input, *self.mixer.rates]), native_matrix(self.mixer.output)
        products = [*given[: len(self.mixer.input)], output]
        fields: dict[str, Any] = {}
        if mlp is not None:
            gate_up, down = native_matrices(mlp.gate_up.matrices), native_matrix(mlp.down)
            if config.intermediate_size % gate_up[0].piece:
                raise NotInKernels("an inner width that is not in whole pieces")
            products += [*gate_up, down]
            fields = {
                "inner": config.intermediate_size,
                "is_gelu": config.activation == "gelu_tanh",
                "before_mlp": describe_norm(layer.before_mlp),
                "after_mlp": _norm_or_none(layer.after_mlp),
                "gate_up": gate_up[0].described,
                "down": down.described,
            }
        self._kept = given, products  # what the description refers to
        self._block = _block(*products)
        if self._block is not None and self._block not in kernels.targets:
            raise NotInKernels("blocks of another size")
        self._layer = layer
        self._of_bytes = all(matrix.described.kind in OF_BYTES for matrix in products)
        self._takes_all = deterministic or (self._of_bytes and dtype == torch.float32)
        self.index = index
        self.kernels = kernels
        self.described = Layer(
            hidden=config.hidden_size,
            is_bfloat16=dtype == torch.bfloat16,
            before_attention=describe_norm(layer.before_attention),
            after_attention=_norm_or_none(layer.after_attention),
            residual_scale=config.scales.residual,
            input=given[0].described,
            output=output.described,
            **self.mixer.fields,
            **fields,
        )

    @property
    def target(self) -> int:
        """The number of the kernels' target that computes it."""
        return self.kernels.target(self._block)

    def __call__(self, batch: LayerRows, kv: KVCache) -> None:
        """Transform the hidden states of all rows, in place, and write their KV."""
        if self._takes_all or batch.hidden.shape[0] <= MOST_ROWS:
            self._run_in_pieces(batch, kv)
            return
        mix = self._mix if isinstance(self.mixer, NativeRecurrence) else None
        for places, taken in in_parts([self._takes(segment) for segment in batch.segments]):
            if taken:
                self._run_in_pieces(batch.part(places), kv)
            else:
                self._layer(batch.part(places), kv, mix)

    def _takes(self, segment: Segment) -> bool:
        """Return whether the kernels are to compute a segment."""
        return segment.end - segment.start <= MOST_ROWS or (self._of_bytes and self.mixer.keys(segment) <= MOST_KEYS)

    def _run_in_pieces(self, batch: LayerRows, kv: KVCache) -> None:
        for _, piece in _pieces(batch):
            rows = rows_of(piece)
            left = self.mixer.fill(rows, piece, kv)
            self.kernels.run_layer(self.described, step_of(piece, rows, self.mixer.rope), self._block)
            for do in left:
                do()

    def _mix(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix many rows of a recurrent layer: PyTorch multiplies, and the kernels do what is between the products."""
        given = [matrix(x) for matrix in (*self.mixer.input, *self.mixer.rates)]
        projected = torch.cat(given, dim=-1).float()
        mixed = projected.new_empty(len(x), self.described.output.in_)
        for first, piece in _pieces(batch):
            rows = rows_of(piece)
            step = step_of(piece, rows, None)
            step.projected, step.mixed = projected[first].data_ptr(), mixed[first].data_ptr()
            self.kernels.run_layer(self.described, step, self._block)
        return self.mixer.output(mixed.to(x.dtype))


def _pieces(batch: LayerRows) -> Iterator[tuple[int, LayerRows]]:
    """Yield the rows in pieces that the kernels take at once, each with the number of its first row."""
    rows = batch.hidden.shape[0]
    if rows <= MOST_ROWS:
        yield 0, batch
        return
    for first in range(0, rows, MOST_ROWS):
        yield first, batch.piece(range(first, min(rows, first + MOST_ROWS)))


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
    buffers: StateBuffers | None = None,
) -> list[AnyLayer]:
    """Return what computes each layer: the kernels those that they can, and the layers themselves the others.

    The log says how many the kernels cannot, and why.

    Args:
        layers: of the model.
        config: the model's.
        dtype: of the rows and the KV.
        kernels: compute them.
        deterministic: whether the kernels are to compute all rows of all layers.
        buffers: for the states of recurrent layers; None where there are none.

    Raises:
        NotInKernels: they are to, and cannot.
    """
    chosen: list[AnyLayer] = []
    refused: Counter[str] = Counter()
    for index, layer in enumerate(layers):
        try:
            own = NativeLayer(layer, index, config, dtype, kernels, deterministic=deterministic, buffers=buffers)
            chosen.append(own)
        except NotInKernels as why:
            if deterministic:
                raise
            chosen.append(layer)
            refused[str(why)] += 1
    for reason, layers_without in refused.items():
        logger.info("the kernels do not compute %s: %s", counted(layers_without, "layer"), reason)
    return chosen


def _mlp(layer: DecoderLayer, config: ModelConfig, dtype: torch.dtype) -> GatedMlp | None:
    """Return the MLP of a layer that has nothing beside attention which the kernels do not; None for no MLP.

    Raises:
        NotInKernels: it has.
    """
    if dtype not in DTYPES:
        raise NotInKernels("another dtype")
    if layer.mlp is None and not isinstance(layer.attention, SelfAttention):
        return None
    if not isinstance(layer.mlp, GatedMlp):
        raise NotInKernels("experts, or no gated MLP")
    if config.layer_shapes or config.layer_scalars or (config.scales.mlp, config.scales.gate) != (1.0, 1.0):
        raise NotInKernels("layers of other sizes each, or scaled layers")
    if config.norms.parallel:
        raise NotInKernels("attention and MLP side by side")
    if config.activation not in ACTIVATIONS:
        raise NotInKernels("another activation")
    return layer.mlp


def _block(*matrices: NativeMatrix) -> int | None:
    """Return the outputs of a block; None if no matrix is in blocks.  Raises NotInKernels if they differ."""
    blocks = {matrix.block for matrix in matrices if matrix.block is not None}
    if len(blocks) > 1:
        raise NotInKernels("matrices in other layouts")
    return blocks.pop() if blocks else None


def _norm_or_none(norm: Norm) -> structures.Norm:
    """Describe a norm that may be none.  Raises NotInKernels for another kind."""
    return structures.Norm() if isinstance(norm, NoNorm) else describe_norm(norm)
