"""Self-attention of a decoder layer, with grouped query heads (Ainslie et al., arXiv 2305.13245)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.devices.single_rows.rows import Scoring
from runtime.nn.layers.attention import attend, first_visible
from runtime.nn.layers.query_key_norm import read_query_key_norm
from runtime.nn.layers.rope import apply_rope
from runtime.nn.layers.tiles import choose_tile_kernel
from runtime.nn.matrices.linear import total_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.single_rows.rows import SingleRows
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.source import WeightSource


# Of a gate's numbers, whatever their shape.
_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "softplus": lambda gate: F.softplus(gate.float()).to(gate.dtype),
}


class SelfAttention:
    """Attention of each segment's rows over its slot's KV; queries, keys and values are rows of one matrix.

    Args:
        source: of the weights, under the module's name.
        config: the model's.
        index: of the layer.

    Attributes:
        dim: numbers of a head.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, index: int) -> None:
        shape = config.shape(index)
        self._heads, self._kv_heads, self.dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        self._values_are_keys = shape.values_are_keys
        self._own = self._kv_heads if shape.kv_layer is None else 0  # key heads that it computes, and as many of values
        self._norms_values = config.qk_norm == "with_values" and self._own > 0
        self._index = index
        self._window = config.window[index]
        self._mask = self._window, config.group(index)
        rope = config.ropes[index]
        self.rope = None if rope is None else config.distinct_ropes.index(rope)
        query, key_value = self._heads * self.dim, self._own * self.dim
        parts = {"q_proj": query, "k_proj": key_value, "v_proj": 0 if self._values_are_keys else key_value}
        self._gate, self._gate_start = config.output_gate, sum(parts.values())
        if self._gate is not None:
            parts["gate_proj"] = self._heads if self._gate.by_head else query
        parts = {name: outputs for name, outputs in parts.items() if outputs}
        self.qkv = source.linear(parts, config.hidden_size, bias=config.qkv_bias)
        self.query_key_norm = read_query_key_norm(source, config, index)
        self._norm_rotated = config.qk_norm_rotated
        self.output = source.linear({"o_proj": config.hidden_size}, query, bias=config.output_bias)
        self.sinks = source.tensor("sinks", self._heads) if config.sinks else None
        scale, softcap = config.scales.attention, config.scales.attention_softcap
        self._scoring = Scoring(self.dim**-0.5 if scale is None else scale, softcap, self._window, self.sinks)
        self._tile_kernel = choose_tile_kernel(source.device, source.dtype, config.scales, self.sinks)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, as the files have them: a norm's copies for each head are not counted."""
        norm = 0 if self.query_key_norm is None else self.query_key_norm.nbytes
        return self.qkv.nbytes + self.output.nbytes + norm + total_bytes(self.sinks)

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Attend from all rows, `[rows, hidden]` to the same, and write their keys and values."""
        own, dim = self._own, self.dim
        projected = self.qkv(x)
        qkv = self._read_heads(projected[:, : self._gate_start], batch)
        query, keys_values = qkv.narrow(1, 0, self._heads), qkv.narrow(1, self._heads, 2 * own)
        if batch.single is not None:
            given = keys_values.view(len(x), 2, own, dim)
            return self._leave(self._attend_singly(query, given, batch.single, kv), projected)
        # [2, kv_heads, rows, dim]
        keys_values = keys_values.view(len(x), 2, own, dim).permute(1, 2, 0, 3)
        counts = [len(rows) for rows in batch.ranges]
        queries, written = query.split_with_sizes(counts), keys_values.split_with_sizes(counts, dim=2)
        mask = batch.masks[self._mask]
        attended = []
        for segment, asking, new in zip(batch.segments, queries, written, strict=True):
            if own:
                kv.write(self._index, segment.slot, segment.start, new, segment.pages)
            first = first_visible(segment, self._window)
            keys, values = kv.read(self._index, segment.slot, first, segment.end, segment.pages, brief=True)
            attended.append(attend(asking, keys, values, mask, self._tile_kernel))
        return self._leave(torch.cat(attended) if len(attended) > 1 else attended[0], projected)

    def _leave(self, attended: Tensor, projected: Tensor) -> Tensor:
        """Return what becomes of `[rows, heads * head_dim]`: a product, of what the gates let through."""
        if self._gate is not None:
            heads = len(attended), self._heads, -1
            opened = _GATES[self._gate.activation](projected[:, self._gate_start :])
            attended = (attended.view(heads) * opened.view(heads)).flatten(1)
        return self.output(attended)

    def _attend_singly(self, query: Tensor, keys_values: Tensor, rows: SingleRows, kv: KVCache) -> Tensor:
        """Write `keys_values`, `[rows, 2, kv_heads, head_dim]`, and attend from each row of `query` by itself."""
        layer, ring = kv.layer(self._index)
        if self._own:
            rows.kernels.write(keys_values, layer, ring, rows.table)
        return rows.kernels.attend(query, self._kv_heads, layer, ring, rows.table, self._scoring)

    def _read_heads(self, projected: Tensor, batch: LayerRows) -> Tensor:
        """Return the heads of queries, keys and values, `[rows, all of these, head_dim]`, normalised and rotated."""
        qkv = projected.view(len(projected), -1, self.dim)
        if self._values_are_keys and self._own:
            qkv = torch.cat((qkv, qkv.narrow(1, self._heads, self._own)), dim=1)
        norm = self.query_key_norm
        heads = normed = qkv.narrow(1, 0, self._heads + self._own)  # of queries and keys together
        if norm is not None and self._norms_values:
            normed, values = norm(qkv, batch.whole).split_with_sizes((self._heads + self._own, self._own), dim=1)
            qkv.narrow(1, self._heads + self._own, self._own).copy_(values)
        elif norm is not None and not self._norm_rotated:
            normed = norm(heads, batch.whole)
        if self.rope is not None:  # in place
            cos, sin = batch.rotations[self.rope]
            apply_rope(normed, cos, sin, out=heads)
        elif normed is not heads:
            heads.copy_(normed)
        if norm is not None and self._norm_rotated:
            heads.copy_(norm(heads, batch.whole))
        if batch.query_scale is not None:
            qkv.narrow(1, 0, self._heads).mul_(batch.query_scale)
        return qkv
