"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): what is stored for a token is one vector.

A row of the KV is a token's normalised latent, and behind it the rotated part of its key, which all heads share.  The
matrix `kv_b_proj` makes of the latent each head's plain part of the key and its value.  That can be done in two ways:

- *absorbed*: the query goes through the transposed key matrix instead, and the weighted sum of latents through the
  value matrix.  Attention is then that of one KV head over the rows as they are stored, so decoding reads nothing else.
- *expanded*: keys and values are computed from the stored rows.  A logit then takes a third of the work, which pays
  for the expansion where there are many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.checkpoint.families.scales import Scales
from runtime.nn.layers.attention import TILE, attend
from runtime.nn.layers.norm import RMSNorm
from runtime.nn.layers.rope import apply_rope
from runtime.nn.layers.tiles import choose_tile_kernel

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.layer_config import LatentConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.matrices.linear import Linear
    from runtime.nn.source import WeightSource

# The norms of the latents have an eps of their own, in DeepSeek's code and transformers' alike.
LATENT_NORM_EPS = 1e-6

# Rows of a tile in the absorbed form, a row counted for each head: bounds a tile's logits and its mask.
ABSORBED_TILE = 1024
# Numbers of keys and values that are expanded at a time; the heads are taken in as many turns as that needs.
EXPANDED_NUMBERS = 2**24


class LatentAttention:
    """Attention of each segment's rows over its slot's latents.

    `kv_b_proj` is used by head, and transposed, so it stays plain in every quantisation.

    Args:
        source: of the weights, under the module's name.
        config: the model's.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, index: int) -> None:
        latent, rope, heads = config.latent, config.ropes[index], config.num_heads
        assert latent is not None
        self._heads, self._latent, self._index = heads, latent, index
        self._rope = None if rope is None else config.distinct_ropes.index(rope)
        self._mask = None, config.group(index)
        self._query_width = latent.query_rank or heads * latent.query_dim
        query = "q_proj" if latent.query_rank is None else "q_a_proj"
        parts = {query: self._query_width, "kv_a_proj_with_mqa": latent.stored_dim}
        self.down = source.linear(parts, config.hidden_size, bias=config.qkv_bias)
        self.query_norm: RMSNorm | None = None
        self.query_up: Linear | None = None
        if latent.query_rank is not None:
            self.query_norm = _norm(source, "q_a_layernorm", latent.query_rank)
            self.query_up = source.linear({"q_b_proj": heads * latent.query_dim}, latent.query_rank)
        self.latent_norm = _norm(source, "kv_a_layernorm", latent.rank)
        width = latent.plain_dim + latent.value_dim
        up = source.tensor("kv_b_proj.weight", heads * width, latent.rank)
        self.latent_up = up.view(heads, width, latent.rank)
        self.output = source.linear({"o_proj": config.hidden_size}, heads * latent.value_dim, bias=config.output_bias)
        self._tile_kernel = choose_tile_kernel(source.device, source.dtype, Scales(latent.scale))
        self._least_expanded = least_expanded_rows(latent)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        parts = (self.down, self.query_norm, self.query_up, self.latent_norm, self.latent_up, self.output)
        return sum(part.nbytes for part in parts if part is not None)

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Attend from all rows, `[rows, hidden]` to the same, and write their latents."""
        queries, latents = self._project(x, batch)
        counts = [len(rows) for rows in batch.ranges]
        own = queries.split_with_sizes(counts)
        stored = []
        for segment, new in zip(batch.segments, latents.split_with_sizes(counts), strict=True):
            kv.write(self._index, segment.slot, segment.start, new[None, None], segment.pages)
            (rows,) = kv.read(self._index, segment.slot, segment.first, segment.end, segment.pages)
            stored.append(rows)  # [1, length, stored_dim]
        mask = batch.masks[self._mask]
        few = [i for i, count in enumerate(counts) if count < self._least_expanded]
        attended = dict(zip(few, self._absorbed([own[i] for i in few], [stored[i] for i in few], mask), strict=True))
        for i in range(len(counts)):
            if i not in attended:
                attended[i] = self._expanded(own[i], stored[i], mask)
        return self.output(_joined([attended[i] for i in range(len(counts))]))

    def _project(self, x: Tensor, batch: LayerRows) -> tuple[Tensor, Tensor]:
        """Return the rows' queries, `[rows, heads, query_dim]`, and what is stored of them, `[rows, stored_dim]`."""
        latent = self._latent
        query, stored = self.down(x).split_with_sizes((self._query_width, latent.stored_dim), dim=-1)
        if self.query_norm is not None and self.query_up is not None:
            query = self.query_up(self.query_norm(query))
        query, key = query.view(-1, self._heads, latent.query_dim), stored[:, None, latent.rank :]
        if self._rope is not None:
            cos, sin = batch.rotations[self._rope]
            rotated = query[..., latent.plain_dim :]
            apply_rope(rotated, cos, sin, out=rotated)
            key = apply_rope(key, cos, sin)
        if batch.query_scale is not None:
            query.mul_(batch.query_scale)
        return query, torch.cat((self.latent_norm(stored[:, : latent.rank]), key.squeeze(1)), dim=-1)

    # --- the two forms --------------------------------------------------------------------------------------------

    def _absorbed(self, queries: list[Tensor], stored: list[Tensor], mask: Tensor | None) -> list[Tensor]:
        """Attend from some segments' rows over the rows as they are stored; `[rows, heads * value_dim]` for each."""
        if not queries:
            return []
        latent = self._latent
        plain, rotated = _joined(queries).transpose(0, 1).split_with_sizes((latent.plain_dim, latent.rope_dim), dim=-1)
        inner = torch.bmm(plain, self.latent_up[:, : latent.plain_dim])  # [heads, rows, rank]
        absorbed = torch.cat((inner, rotated), dim=-1)
        counts = [len(own) for own in queries]
        sums = [
            self._attend_stored(own, rows, mask)
            for own, rows in zip(absorbed.split_with_sizes(counts, dim=1), stored, strict=True)
        ]
        values = torch.bmm(_joined(sums, dim=1), self.latent_up[:, latent.plain_dim :].mT)  # [heads, rows, value_dim]
        return list(values.transpose(0, 1).reshape(sum(counts), -1).split_with_sizes(counts))

    def _attend_stored(self, query: Tensor, stored: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from one segment's rows, `[heads, rows, stored_dim]`, over its `[1, length, stored_dim]`.

        Returns:
            The weighted sums of the latents, `[heads, rows, rank]`.
        """
        heads, rows, dim = query.shape
        length, at_once = stored.shape[1], min(TILE, max(1, ABSORBED_TILE // heads))
        tiles = []
        for first in range(0, rows, at_once):
            own = query[:, first : first + at_once]
            count = own.shape[1]
            seen = length - rows + first + count
            keys = stored[:, :seen]
            grouped = own.reshape(1, heads * count, dim)
            # Values of the full width, of which the last numbers mean nothing: kernels want them as wide as the keys.
            visible = None
            if rows > 1:
                assert mask is not None, "several rows have a mask"
                visible = mask[mask.shape[0] - count :, mask.shape[1] - seen :].repeat(heads, 1)
            summed = self._tile_kernel(grouped[None], keys[None], keys[None], visible)
            tiles.append(summed.view(heads, count, dim)[..., : self._latent.rank])
        return _joined(tiles, dim=1)

    def _expanded(self, query: Tensor, stored: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from one segment's rows, `[rows, heads, query_dim]`, over keys and values made of what is stored.

        Returns:
            `[rows, heads * value_dim]`.
        """
        latent, rows = self._latent, query.shape[0]
        latents, rotated = stored[0].split_with_sizes((latent.rank, latent.rope_dim), dim=-1)
        at_once = max(1, EXPANDED_NUMBERS // (2 * latent.query_dim * stored.shape[1]))
        attended = []
        for own, up in zip(torch.split(query, at_once, dim=1), torch.split(self.latent_up, at_once), strict=True):
            expanded = F.linear(latents, up.flatten(0, 1)).view(len(latents), *up.shape[:2]).transpose(0, 1)
            plain, values = expanded.split_with_sizes((latent.plain_dim, latent.value_dim), dim=-1)
            keys = torch.cat((plain, rotated.expand(len(up), -1, -1)), dim=-1)  # [heads, length, query_dim]
            # Kernels want values as wide as the keys.
            values = F.pad(values, (0, latent.query_dim - latent.value_dim))
            summed = attend(own.contiguous(), keys, values, mask, self._tile_kernel)
            attended.append(summed.view(rows, len(up), -1)[..., : latent.value_dim])
        return _joined(attended, dim=1).reshape(rows, -1)


def least_expanded_rows(latent: LatentConfig) -> int:
    """Return from how many rows of a segment on the expanded form takes fewer operations than the absorbed one.

    For a key and a head, expansion multiplies `rank * (plain_dim + value_dim)` numbers, once for all rows; then each
    row's logit and its share of the sum take `2 * query_dim` instead of `2 * stored_dim`.  171 rows for DeepSeek-V3.
    """
    saved = 2 * (latent.stored_dim - latent.query_dim)
    expansion = latent.rank * (latent.plain_dim + latent.value_dim)
    return max(2, -(-expansion // saved)) if saved > 0 else NEVER


NEVER = 2**31  # rows: more than any step has


def _norm(source: WeightSource, name: str, size: int) -> RMSNorm:
    return RMSNorm(source.tensor(f"{name}.weight", size), LATENT_NORM_EPS)


def _joined(tensors: list[Tensor], dim: int = 0) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=dim)
