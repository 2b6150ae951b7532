"""The decoder of the Llama family, run as ragged steps.

All rows of all segments share the linear layers; attention runs per segment over its slot's KV.  The class implements
`runtime.step.StepModel`; everything here happens on the device thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.attention import attend, chunk_mask, first_visible
from runtime.device import RunAhead
from runtime.rope import apply_rope, rope_tables
from runtime.sampler import Drawn, sample
from runtime.step import Output
from runtime.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.config import ModelConfig
    from runtime.kv_cache import KVCache
    from runtime.step import Segment
    from runtime.transfer import Transfer
    from runtime.weights import LayerWeights, Weights


@dataclass(slots=True)
class Batch:
    """A step in progress: the segments still in it, and one row per token of theirs, in order."""

    segments: list[Segment]
    ranges: list[range]  # each segment's rows
    hidden: torch.Tensor  # [rows, hidden]
    slots: torch.Tensor  # [rows]
    positions: torch.Tensor  # [rows]
    cos: torch.Tensor  # [rows, 1, head_dim]
    sin: torch.Tensor  # [rows, 1, head_dim]
    masks: dict[int | None, list[torch.Tensor | None]]  # window -> one [segment rows, keys] per segment


class Transformer:
    """Weights, KV and rope tables of one model on one device."""

    def __init__(self, config: ModelConfig, weights: Weights, kv: KVCache) -> None:
        self.config = config
        self.num_layers = config.num_layers
        self.context = kv.context
        self._weights = weights
        self.kv = kv
        self._device = weights.embedding.device
        self._dtype = weights.embedding.dtype
        self._cos, self._sin = rope_tables(config.rope, kv.context, self._device, self._dtype)
        self._qk_norms = [_stacked_norm(config, layer) for layer in weights.layers]
        self._run_ahead = RunAhead(self._device)

    # --- StepModel ------------------------------------------------------------------------------------------------

    def begin(self, segments: Sequence[Segment]) -> Batch:
        token_ids = self._indices([token for segment in segments for token in segment.token_ids])
        positions = self._indices([p for segment in segments for p in range(segment.start, segment.end)])
        slots = self._indices([segment.slot for segment in segments for _ in segment.token_ids])
        return Batch(
            segments=list(segments),
            ranges=_row_ranges(segments),
            hidden=F.embedding(token_ids, self._weights.embedding),
            slots=slots,
            positions=positions,
            cos=self._cos[positions].unsqueeze(1),
            sin=self._sin[positions].unsqueeze(1),
            masks={window: self._masks(segments, window) for window in set(self.config.window)},
        )

    def keep(self, batch: Batch, kept: Sequence[int]) -> None:
        rows = self._indices([row for i in kept for row in batch.ranges[i]])
        batch.segments = [batch.segments[i] for i in kept]
        batch.ranges = _row_ranges(batch.segments)
        batch.masks = {window: [masks[i] for i in kept] for window, masks in batch.masks.items()}
        batch.hidden, batch.slots, batch.positions = batch.hidden[rows], batch.slots[rows], batch.positions[rows]
        batch.cos, batch.sin = batch.cos[rows], batch.sin[rows]

    def layer(self, batch: Batch, index: int) -> int:
        weights, eps = self._weights.layers[index], self.config.norm_eps
        normed = F.rms_norm(batch.hidden, (self.config.hidden_size,), weights.input_norm, eps)
        attended = self._attention(batch, index, weights, normed)
        batch.hidden = batch.hidden + F.linear(attended, weights.output, weights.output_bias)
        normed = F.rms_norm(batch.hidden, (self.config.hidden_size,), weights.post_norm, eps)
        gate, up = F.linear(normed, weights.gate_up, weights.gate_up_bias).chunk(2, dim=-1)
        batch.hidden = batch.hidden + F.linear(F.silu(gate) * up, weights.down, weights.down_bias)
        return self._run_ahead.layer_encoded()

    def abandon(self, batch: Batch) -> None:
        self._run_ahead.drain()

    def finish(self, batch: Batch) -> list[Output]:
        # A sum is finite only if every term is (in float32 no sum of finite rows overflows), and costs one pass.
        finite = batch.hidden.sum(-1, dtype=torch.float32).isfinite()  # [rows]
        sampled = [i for i, segment in enumerate(batch.segments) if segment.sample is not None]
        specs = [spec for segment in batch.segments if (spec := segment.sample) is not None]
        drawn: list[Drawn] = []
        if specs:
            logits = self._logits(batch.hidden[self._indices([batch.ranges[i][-1] for i in sampled])])
            drawn = sample(logits, specs)  # reads back from the device, as does `finite` below
        finite_rows: list[bool] = finite.tolist()
        self._run_ahead.drain()
        by_segment = dict(zip(sampled, drawn, strict=True))
        return [
            Output(
                finite=all(finite_rows[rows.start : rows.stop]) and (i not in by_segment or by_segment[i].finite),
                tokens=(by_segment[i].token,) if i in by_segment else (),
            )
            for i, rows in enumerate(batch.ranges)
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        match transfer:
            case Save(slot, start, end):
                return self.kv.save(slot, start, end)
            case Load(slot, start, data):
                self.kv.load(slot, start, data)
            case Copy(source, slot, start, end):
                self.kv.copy(source, slot, start, end)
        return None

    # --- the parts of a layer ---------------------------------------------------------------------------------------

    def _attention(self, batch: Batch, index: int, weights: LayerWeights, normed: torch.Tensor) -> torch.Tensor:
        """Attention of all rows, `[rows, hidden]` to `[rows, heads * head_dim]`; stores their keys and values."""
        config = self.config
        heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
        qkv = F.linear(normed, weights.qkv, weights.qkv_bias).view(-1, heads + 2 * kv_heads, dim)
        rotated, value = qkv[:, : heads + kv_heads], qkv[:, heads + kv_heads :]  # query and key heads go together
        qk_norm = self._qk_norms[index]
        if qk_norm is not None:
            rotated = F.rms_norm(rotated, (dim,), eps=config.norm_eps) * qk_norm
        if config.rotary[index]:
            rotated = apply_rope(rotated, batch.cos, batch.sin)
        query, key = rotated[:, :heads], rotated[:, heads:]
        self.kv.write(index, batch.slots, batch.positions, torch.stack((key, value), dim=1))
        window = config.window[index]
        return torch.cat(
            [
                attend(
                    query[rows.start : rows.stop],
                    *self.kv.read(index, segment.slot, first_visible(segment.start, window), segment.end),
                    mask,
                )
                for segment, rows, mask in zip(batch.segments, batch.ranges, batch.masks[window], strict=True)
            ]
        )

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[rows, hidden]` to float32 `[rows, vocab]`."""
        normed = F.rms_norm(hidden, (self.config.hidden_size,), self._weights.final_norm, self.config.norm_eps)
        return F.linear(normed, self._weights.lm_head).float()

    def _masks(self, segments: Sequence[Segment], window: int | None) -> list[torch.Tensor | None]:
        return [
            chunk_mask(segment.start, len(segment.token_ids), window, self._device, self._dtype) for segment in segments
        ]

    def _indices(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)


def _stacked_norm(config: ModelConfig, layer: LayerWeights) -> torch.Tensor | None:
    """Norm weights of every query and key head, `[heads + kv_heads, head_dim]`, or None for a family without."""
    if layer.q_norm is None or layer.k_norm is None:
        return None
    return torch.cat((layer.q_norm.expand(config.num_heads, -1), layer.k_norm.expand(config.num_kv_heads, -1)))


def _row_ranges(segments: Sequence[Segment]) -> list[range]:
    """The rows of each segment in the batch."""
    ranges, start = [], 0
    for segment in segments:
        ranges.append(range(start, start + len(segment.token_ids)))
        start += len(segment.token_ids)
    return ranges
