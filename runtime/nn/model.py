"""The decoder of the Llama family, run as ragged steps.

All rows of all segments share the linear layers; attention runs per segment over its slot's KV.  `Transformer`
implements `runtime.step.step.StepModel`; everything here happens on the device thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.attention import attend, choose_tile_kernel, first_visible, step_mask
from runtime.nn.norm import RMSNorm
from runtime.nn.rope import apply_rope, rope_tables
from runtime.sampling.acceptance import verify
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.staging import StagingBuffer
from runtime.step.device import RunAhead
from runtime.step.step import SegmentOutput
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.weights import LayerWeights, Weights
    from runtime.sampling.sampler import SampledRow
    from runtime.sampling.staging import StagedTensor
    from runtime.step.step import Segment
    from runtime.step.transfer import Transfer


@dataclass(slots=True)
class Batch:
    """A step in progress: the segments still in it, and a row for each of their tokens, in order."""

    segments: list[Segment]
    ranges: list[range]  # each segment's rows
    hidden: torch.Tensor  # [rows, hidden]
    slots: torch.Tensor  # [rows]
    positions: torch.Tensor  # [rows]
    sampled_rows: torch.Tensor  # [sampled rows], the rows after which a token is drawn
    sampling: SamplingBatch  # what these ask for
    cos: torch.Tensor  # [rows, 1, head_dim]
    sin: torch.Tensor  # [rows, 1, head_dim]
    masks: dict[int | None, torch.Tensor | None]  # by window, as `step_mask` makes them


@dataclass(frozen=True, slots=True)
class _LayerNorms:
    """The normalisations of one layer."""

    input: RMSNorm
    query_key: RMSNorm | None  # of every query and key head; a family may have none
    post: RMSNorm

    @classmethod
    def of(cls, config: ModelConfig, layer: LayerWeights) -> _LayerNorms:
        query_key = None
        if layer.q_norm is not None and layer.k_norm is not None:
            heads = layer.q_norm.expand(config.num_heads, -1), layer.k_norm.expand(config.num_kv_heads, -1)
            query_key = RMSNorm(torch.cat(heads), config.norm_eps)
        return cls(RMSNorm(layer.input_norm, config.norm_eps), query_key, RMSNorm(layer.post_norm, config.norm_eps))


class HiddenStates:
    """The target's last hidden states, `[slots, context, hidden]`, which a module drafts from.

    A row is valid where the slot's KV is and a step computed it, not where KV was moved in.  The device thread alone
    reads and writes them.

    Args:
        slots: sequences to have room for.
        context: positions per slot.
        hidden: size of a state.
        device: where they are.
        dtype: the target's.
        pre_norm: the states are those before the final norm, and not after it.
    """

    def __init__(
        self, slots: int, context: int, hidden: int, device: torch.device, dtype: torch.dtype, *, pre_norm: bool = False
    ) -> None:
        self.pre_norm = pre_norm
        self._rows = torch.empty(slots, context, hidden, device=device, dtype=dtype)

    def write(self, slots: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor) -> None:
        """Store `rows`, `[rows, hidden]`, each at its slot and position, `[rows]`."""
        self._rows[slots, positions] = rows

    def read(self, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the states at these slots and positions, `[rows, hidden]`."""
        return self._rows[slots, positions]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._rows.nbytes


class Transformer:
    """Weights, KV and rope tables of one model on one device.

    A drafter is a subclass that overrides `embed`, `store_states` or `compute_logits`.

    Args:
        config: the model's.
        weights: of that config.
        kv: likewise.
        states: takes the last hidden state of each row; None where no drafter wants them.
    """

    def __init__(self, config: ModelConfig, weights: Weights, kv: KVCache, states: HiddenStates | None = None) -> None:
        self.config = config
        self.num_layers = config.num_layers
        self.context = kv.context
        self.weights = weights
        self.kv = kv
        self.states = states
        self._device = weights.embedding.device
        self._dtype = weights.embedding.dtype
        self._cos, self._sin = rope_tables(config.rope, kv.context, self._device, self._dtype)
        self._norms = [_LayerNorms.of(config, layer) for layer in weights.layers]
        self._final_norm = RMSNorm(weights.final_norm, config.norm_eps)
        self._tile_kernel = choose_tile_kernel(self._device, self._dtype)
        self._run_ahead = RunAhead(self._device)

    # --- StepModel ------------------------------------------------------------------------------------------------

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Send the step's numbers to the device, and embed its rows."""
        ranges = _row_ranges(segments)
        staging = StagingBuffer()
        token_ids = staging.ints([token for segment in segments for token in segment.token_ids])
        positions = staging.ints([p for segment in segments for p in range(segment.start, segment.end)])
        slots = staging.ints([segment.slot for segment in segments for _ in segment.token_ids])
        sampled_rows, sampling = _stage_sampling(segments, ranges, staging)
        staging.send(self._device)
        return Batch(
            segments=list(segments),
            ranges=ranges,
            hidden=self.embed(token_ids.tensor, slots.tensor, positions.tensor),
            slots=slots.tensor,
            positions=positions.tensor,
            sampled_rows=sampled_rows.tensor,
            sampling=sampling,
            cos=self._cos[positions.tensor].unsqueeze(1),
            sin=self._sin[positions.tensor].unsqueeze(1),
            masks={window: self.build_mask(segments, window) for window in set(self.config.window)},
        )

    def shrink(self, batch: Batch, kept: Sequence[int]) -> None:
        """Take the rows of all but the `kept` segments out of the batch."""
        staging = StagingBuffer()
        kept_rows = staging.ints([row for i in kept for row in batch.ranges[i]])
        batch.segments = [batch.segments[i] for i in kept]
        batch.ranges = _row_ranges(batch.segments)
        sampled_rows, batch.sampling = _stage_sampling(batch.segments, batch.ranges, staging)
        staging.send(self._device)
        rows, batch.sampled_rows = kept_rows.tensor, sampled_rows.tensor
        batch.hidden, batch.slots, batch.positions = batch.hidden[rows], batch.slots[rows], batch.positions[rows]
        batch.cos, batch.sin = batch.cos[rows], batch.sin[rows]

    def run_layer(self, batch: Batch, index: int) -> int:
        """Encode one layer; returns how many layers the device has not finished."""
        weights, norms = self.weights.layers[index], self._norms[index]
        attended = self._attention(batch, index, norms.input(batch.hidden))
        batch.hidden.add_(weights.output(attended))
        gate_up = weights.gate_up(norms.post(batch.hidden))
        middle = gate_up.shape[1] // 2
        gate, up = gate_up.narrow(1, 0, middle), gate_up.narrow(1, middle, middle)
        batch.hidden.add_(weights.down(F.silu(gate).mul_(up)))
        return self._run_ahead.layer_encoded()

    def abandon(self, batch: Batch) -> None:
        """Wait until the device has finished what was encoded."""
        self._run_ahead.drain()

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Sample and verify, check that all rows are finite, and read the results from the device, at once."""
        # A sum is finite only if every term is (in float32 no sum of finite rows overflows), and costs one pass.
        finite = batch.hidden.sum(-1, dtype=torch.float32).isfinite()  # [rows]
        states = self._final_norm(batch.hidden)
        self.store_states(batch, states)
        sampled: list[SampledRow] = []
        if batch.sampling.specs:
            logits = self.compute_logits(states[batch.sampled_rows])  # [sampled rows, vocab]
            sampled, finite_rows = verify(logits, batch.sampling, also_read=finite)
        else:
            finite_rows = finite.tolist()  # the step's one read from the device, as in `verify`
        self._run_ahead.drain()
        rest = iter(sampled)
        return [
            _output(list(islice(rest, segment.num_sampled)), finite_rows[rows.start : rows.stop])
            for segment, rows in zip(batch.segments, batch.ranges, strict=True)
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move KV; returns what a `Save` copied, `[layers, 2, kv_heads, tokens, head_dim]` in host memory."""
        match transfer:
            case Save(slot, start, end):
                return self.kv.save(slot, start, end)
            case Load(slot, start, data):
                self.kv.load(slot, start, data)
            case Copy(source, slot, start, end):
                self.kv.copy(source, slot, start, end)
        return None

    # --- what a drafter overrides -----------------------------------------------------------------------------------

    def embed(self, token_ids: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return what goes into the first layer, `[rows, hidden]`; the arguments are `[rows]` each."""
        return F.embedding(token_ids, self.weights.embedding)

    def store_states(self, batch: Batch, states: torch.Tensor) -> None:
        """Store what a drafter goes on from; `states` is `[rows, hidden]`, after the final norm."""
        if self.states is not None:
            self.states.write(batch.slots, batch.positions, batch.hidden if self.states.pre_norm else states)

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of the tokens after rows of `states`, float32 `[rows, vocab]`."""
        return self.weights.lm_head(states).float()

    # --- the parts of a layer ---------------------------------------------------------------------------------------

    def _attention(self, batch: Batch, index: int, normed: torch.Tensor) -> torch.Tensor:
        """Attend from all rows, `[rows, hidden]` to `[rows, heads * head_dim]`, and write their keys and values."""
        config = self.config
        heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
        qkv = self.weights.layers[index].qkv(normed).view(-1, heads + 2 * kv_heads, dim)  # [rows, all heads, dim]
        self._rotate(qkv.narrow(1, 0, heads + kv_heads), index, batch)  # query and key heads together, in place
        query = qkv.narrow(1, 0, heads)
        # [2, kv_heads, rows, dim]
        keys_values = qkv.narrow(1, heads, 2 * kv_heads).view(-1, 2, kv_heads, dim).permute(1, 2, 0, 3)
        window = config.window[index]
        counts = [len(rows) for rows in batch.ranges]
        queries, written = query.split_with_sizes(counts), keys_values.split_with_sizes(counts, dim=2)
        attended = []
        for segment, own, new in zip(batch.segments, queries, written, strict=True):
            self.kv.write(index, segment.slot, segment.start, new)
            seen = self.kv.read(index, segment.slot, first_visible(segment, window), segment.end)
            attended.append(attend(own, *seen, batch.masks[window], self._tile_kernel))
        return torch.cat(attended) if len(attended) > 1 else attended[0]

    def _rotate(self, heads: torch.Tensor, index: int, batch: Batch) -> None:
        """Normalise and rotate query and key heads, `[rows, heads + kv_heads, head_dim]`, in place."""
        norm = self._norms[index].query_key
        normed = heads if norm is None else norm(heads)
        if self.config.rotary[index]:
            apply_rope(normed, batch.cos, batch.sin, out=heads)
        elif norm is not None:
            heads.copy_(normed)

    def build_mask(self, segments: Sequence[Segment], window: int | None) -> torch.Tensor | None:
        """Build the step's mask for layers with this window, as `step_mask` does."""
        group = self.config.num_heads // self.config.num_kv_heads
        return step_mask(segments, window, group, self._device, self._dtype)


def _stage_sampling(
    segments: Sequence[Segment], ranges: Sequence[range], staging: StagingBuffer
) -> tuple[StagedTensor, SamplingBatch]:
    """Stage the rows after which a token is drawn, the last ones of each segment, and what these rows ask for."""
    pairs = zip(segments, ranges, strict=True)
    rows = [row for segment, own in pairs for row in own[len(own) - segment.num_sampled :]]
    specs = [spec for segment in segments for spec in segment.sample_specs]
    drafts = [draft for segment in segments if segment.sample for draft in (*segment.drafts, None)]
    return staging.ints(rows), SamplingBatch.stage(specs, drafts, staging)


def _output(sampled: Sequence[SampledRow], finite_rows: Sequence[float]) -> SegmentOutput:
    """Return one segment's output: its tokens up to the first row that did not accept its draft."""
    if not all(finite_rows) or not all(row.finite for row in sampled):
        return SegmentOutput(finite=False)
    accepted = len(list(takewhile(lambda row: row.accepted, sampled)))
    return SegmentOutput(finite=True, tokens=tuple(row.token for row in sampled[: accepted + 1]))


def _row_ranges(segments: Sequence[Segment]) -> list[range]:
    """Return the rows of each segment in the batch."""
    ranges, start = [], 0
    for segment in segments:
        ranges.append(range(start, start + len(segment.token_ids)))
        start += len(segment.token_ids)
    return ranges
