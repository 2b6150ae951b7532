"""The decoder of the Llama family, run as ragged steps.

All rows of all segments share the linear layers; attention runs per segment over its slot's KV.  `Transformer`
implements `runtime.step.step.StepModel`; everything here happens on the device thread.
"""

from __future__ import annotations

import math
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import torch

from runtime.devices.single_rows.rows import stage_single_rows
from runtime.kv.pages import PAGE_TOKENS
from runtime.nn.layers.attention import step_mask
from runtime.nn.layers.batch import Batch
from runtime.nn.layers.native_layer import NativeLayer, with_native_layers
from runtime.nn.layers.recorded import RecordedLayers
from runtime.nn.layers.recurrent import StateRows
from runtime.nn.layers.rope import query_scales, rope_tables
from runtime.nn.matrices.native import native_head
from runtime.nn.native_draws import NativeDraws
from runtime.nn.native_stack import native_stacks
from runtime.sampling.acceptance import verify
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.masks import MaskPenalties
from runtime.sampling.sampler import Drawn
from runtime.sampling.staging import StagingBuffer
from runtime.step.device import RunAhead
from runtime.step.prompt_rows.gather import PromptRows
from runtime.step.prompt_rows.wanted import NOTHING
from runtime.step.step import SegmentOutput
from runtime.step.transfer import Copy, CopyPage, Load, LoadState, Save, SaveState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.families.scales import Scales
    from runtime.devices.cuda.capture import Capture
    from runtime.devices.native.kernels import Kernels
    from runtime.devices.single_rows.rows import RowKernels
    from runtime.devices.single_rows.states import StateKernels
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers
    from runtime.nn.layers.native_layer import AnyLayer
    from runtime.nn.matrices.linear import Linear
    from runtime.nn.matrices.native import NativeLinear
    from runtime.nn.weights import Weights
    from runtime.sampling.sampler import SampledRow
    from runtime.sampling.staging import StagedTensor
    from runtime.sampling.tokens import TokenDraws
    from runtime.step.prompt_rows.wanted import RowsGiven
    from runtime.step.step import Segment
    from runtime.step.transfer import Transfer


class HiddenStates:
    """The target's last hidden states, `[positions, hidden]`, which a module drafts from.

    They lie where the KV of their rows does in the pool: at the places of a sequence's pages.

    A row is valid where the slot's KV is and a step computed it, not where KV was moved in.  The device thread alone
    reads and writes them.

    Args:
        positions: of the pool.
        hidden: size of a state.
        device: where they are.
        dtype: the target's.
        pre_norm: the states are those before the final norm, and not after it.
    """

    def __init__(
        self, positions: int, hidden: int, device: torch.device, dtype: torch.dtype, *, pre_norm: bool = False
    ) -> None:
        self.pre_norm = pre_norm
        self._rows = torch.empty(positions, hidden, device=device, dtype=dtype)

    def write(self, places: torch.Tensor, rows: torch.Tensor) -> None:
        """Store `rows`, `[rows, hidden]`, each at its place, `[rows]`."""
        self._rows[places] = rows

    def read(self, places: torch.Tensor) -> torch.Tensor:
        """Return the states at these places, `[rows, hidden]`."""
        return self._rows[places]

    def copy_page(self, source: int, target: int, rows: int) -> None:
        """Copy so many states of one page to another."""
        copied = self._rows.narrow(0, source * PAGE_TOKENS, rows)
        self._rows.narrow(0, target * PAGE_TOKENS, rows).copy_(copied)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._rows.nbytes


class Transformer:
    """Weights, KV and rope tables of one model on one device.

    A drafter is a subclass that overrides `embed`, `embed_for_layers`, `store_states` or `compute_logits`.

    Args:
        config: the model's.
        weights: of that config.
        kv: likewise.
        states: takes the last hidden state of each row; None where no drafter wants them.
        kernels: compute few rows of the layers, and of the head, where they can, and draw tokens; None where PyTorch
            is to do all.
        capture: records the layers that it can for steps of few rows; None where none are.
        row_kernels: attend in steps of few rows, row by row; None where attention is always by segments.
        state_kernels: compute the rules of recurrent layers in such steps; None where PyTorch does.
        deterministic: whether `kernels` are to compute all rows, so that no row's result depends on its neighbours.
        buffers: for the states of recurrent layers; None where there are no such layers.

    Raises:
        NotInKernels: they are to, and cannot.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        kv: KVCache,
        states: HiddenStates | None = None,
        kernels: Kernels | None = None,
        capture: Capture | None = None,
        row_kernels: RowKernels | None = None,
        state_kernels: StateKernels | None = None,
        *,
        deterministic: bool = False,
        buffers: StateBuffers | None = None,
    ) -> None:
        self.config = config
        self.num_layers = config.num_layers
        self.context = kv.context
        self.weights = weights
        self.kv = kv
        self.states = states
        self.buffers = buffers
        self._device = weights.embedding.device
        self._dtype = weights.embedding.dtype
        self._ropes = [rope_tables(rope, kv.context, self._device, self._dtype) for rope in config.distinct_ropes]
        scale = config.scales.query
        self._query_scales = None if scale is None else query_scales(scale, kv.context, self._device, self._dtype)
        # Rounded as transformers rounds it: Gemma was trained with the square root of its size in bfloat16.
        self._embedding_scale = torch.tensor(config.scales.embedding, dtype=self._dtype).item()
        self._mask_kinds = {(window, config.group(layer)) for layer, window in enumerate(config.window)}
        self._layers: Sequence[AnyLayer] = weights.layers
        self._head: Linear | NativeLinear = weights.lm_head
        self._draws = None if kernels is None else NativeDraws(kernels)
        if kernels is not None:
            self._head = native_head(weights.lm_head, self._dtype, kernels, deterministic=deterministic)
            self._layers = with_native_layers(
                weights.layers, config, self._dtype, kernels, deterministic=deterministic, buffers=buffers
            )
        self._stacks = native_stacks(self._layers, kv)
        self.capture = capture
        self.row_kernels = row_kernels
        self.state_kernels = state_kernels
        self._recorded = None if capture is None else RecordedLayers(weights.layers, config, kv, capture)
        self._run_ahead = RunAhead(self._device)
        self._penalties = MaskPenalties(self._device)

    @property
    def native_layers(self) -> int:
        """Return how many layers the kernels compute for few rows."""
        return sum(isinstance(layer, NativeLayer) for layer in self._layers)

    # --- StepModel ------------------------------------------------------------------------------------------------

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Send the step's numbers to the device, and embed its rows."""
        return self._begin(segments)

    def _begin(self, segments: Sequence[Segment], drawn: StagedTensor | None = None) -> Batch:
        """Begin a step.

        Args:
            segments: its rows.
            drawn: their tokens, `[rows]`, where only the device knows them; None where the segments say them.
        """
        for segment in segments:
            self.kv.note_rows(segment.slot, segment.start, segment.end)
            if self.buffers is not None:
                written = [buffer for _, buffer in segment.next_states]
                self.buffers.check_rows(segment.start, segment.state, written)
        ranges = _row_ranges(segments)
        staging = StagingBuffer()
        token_ids = drawn or staging.ints([token for segment in segments for token in segment.token_ids])
        positions = staging.ints([p for segment in segments for p in range(segment.start, segment.end)])
        places, read = (staging.ints(_places(segments, before)) for before in (0, self.states_before))
        sampled_rows, sampling = _stage_sampling(segments, ranges, staging, self._penalties, self._draws)
        prompt_rows = _stage_prompt_rows(segments, ranges, staging)
        recorded = None if self._recorded is None else self._recorded.stage(segments, staging)
        singly = stage_single_rows(self.row_kernels, segments, staging)
        states = self._stage_states(segments, ranges, staging)
        staging.send(self._device, waits=drawn is None)
        embedded = self.embed(token_ids.tensor, read.tensor)
        batch = Batch(
            segments=list(segments),
            ranges=ranges,
            hidden=embedded if self.weights.streams is None else self.weights.streams(embedded),
            layer_inputs=self.embed_for_layers(token_ids.tensor, embedded),
            places=places.tensor,
            positions=positions.tensor,
            sampled_rows=sampled_rows.tensor,
            sampling=sampling,
            prompt_rows=prompt_rows,
            rotations=[
                (cos[positions.tensor].unsqueeze(1), sin[positions.tensor].unsqueeze(1)) for cos, sin in self._ropes
            ],
            query_scale=None if self._query_scales is None else self._query_scales[positions.tensor],
            masks={} if singly else {kind: self.build_mask(segments, *kind) for kind in self._mask_kinds},
            states=states,
            single=singly.sent() if singly else None,
            sent=staging,
        )
        if self._recorded is not None and recorded is not None:
            self._recorded.take(batch, recorded)
        return batch

    def shrink(self, batch: Batch, kept: Sequence[int]) -> None:
        """Take the rows of all but the `kept` segments out of the batch."""
        staging = StagingBuffer()
        kept_rows = staging.ints([row for i in kept for row in batch.ranges[i]])
        batch.segments = [batch.segments[i] for i in kept]
        batch.ranges = _row_ranges(batch.segments)
        sampled_rows, batch.sampling = _stage_sampling(
            batch.segments, batch.ranges, staging, self._penalties, self._draws
        )
        batch.prompt_rows = _stage_prompt_rows(batch.segments, batch.ranges, staging)
        # Who is left has no more rows than before: a batch of single rows, which has no masks, stays one.
        singly = stage_single_rows(self.row_kernels, batch.segments, staging)
        batch.states = self._stage_states(batch.segments, batch.ranges, staging)
        staging.send(self._device)
        batch.single = singly.sent() if singly else None
        rows, batch.sampled_rows = kept_rows.tensor, sampled_rows.tensor
        batch.hidden, batch.places, batch.positions = batch.hidden[rows], batch.places[rows], batch.positions[rows]
        if batch.layer_inputs is not None:
            batch.layer_inputs = batch.layer_inputs[rows]
        batch.rotations = [(cos[rows], sin[rows]) for cos, sin in batch.rotations]
        batch.query_scale = None if batch.query_scale is None else batch.query_scale[rows]
        batch.recorded = 0  # the rows lie elsewhere now

    def _stage_states(
        self, segments: Sequence[Segment], ranges: Sequence[range], staging: StagingBuffer
    ) -> StateRows | None:
        """Stage which states the segments go on from; None where no layer is recurrent."""
        own, kernels = self.buffers, self.state_kernels
        return None if own is None else StateRows.stage(own, segments, ranges, staging, kernels)

    def run_layer(self, batch: Batch, index: int) -> int:
        """Encode one layer; returns how many layers the device has not finished."""
        if self._recorded is None or not self._recorded.run(batch, index):
            self._layers[index](batch, self.kv)
        return self._run_ahead.layer_encoded()

    def run_layers(self, batch: Batch, first: int) -> Sequence[float]:
        """Run layers from `first` on in one call of the kernels, as `LayersTogether.run_layers`."""
        stack = self._stacks[first]
        return () if stack is None else stack.run(batch, first)

    def abandon(self, batch: Batch) -> None:
        """Wait until the device has finished what was encoded."""
        self._run_ahead.drain()

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Sample and verify, gather what prompts give, check that all is finite, and read all of it at once."""
        outputs = self._read(batch, self._draw(batch))
        self._run_ahead.drain()
        return outputs

    def _draw(self, batch: Batch) -> Drawn:
        """Give the device what is behind the layers."""
        # A sum is finite only if every term is (in float32 no sum of finite rows overflows), and costs one pass.
        sums = batch.hidden.flatten(1).sum(-1, dtype=torch.float32)  # [rows]
        states = self.weights.final_norm(batch.hidden)
        self.store_states(batch, states)
        vocab_size = self.config.vocab_size
        gathered = batch.prompt_rows.compute(states, self.compute_logits, vocab_size, self._run_ahead.layer_encoded)
        also_read = torch.cat([sums, *gathered]) if gathered else sums
        if not batch.sampling.specs:
            return Drawn.nothing(batch.sampling, also_read)
        logits = self.compute_logits(states[batch.sampled_rows])  # [sampled rows, vocab]
        return verify(logits, batch.sampling, also_read=also_read)

    def _read(self, batch: Batch, drawn: Drawn) -> list[SegmentOutput]:
        """Read what was drawn: the step's one read from the device."""
        sampled, numbers = drawn.read()
        rows = batch.ranges[-1].stop
        given = batch.prompt_rows.parse(numbers[rows:], self.config.hidden_size, self.config.vocab_size)
        rest = iter(sampled)
        return [
            _output(list(islice(rest, segment.num_sampled)), numbers[rows.start : rows.stop], given.get(place, NOTHING))
            for place, (segment, rows) in enumerate(zip(batch.segments, batch.ranges, strict=True))
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move KV or a state; returns what was copied to host memory, as `KVData`."""
        match transfer:
            case Save(slot, start, end, windows, pages):
                return self.kv.save(slot, start, end, pages, windows=windows)
            case Load(slot, start, data, windows, pages):
                self.kv.load(slot, start, data, pages, windows=windows)
            case Copy(source, slot, start, end, least, source_pages, pages):
                self.kv.copy(source, slot, start, end, source_pages, pages, least)
            case CopyPage(_, source, target, rows):
                # A module's states are its target's: to copy them twice changes nothing.
                for held in (self.kv,) if self.states is None else (self.kv, self.states):
                    held.copy_page(source, target, rows)
            case SaveState(_, buffer) if self.buffers is not None:
                return self.buffers.save(buffer)
            case LoadState(_, buffer, data) if self.buffers is not None:
                self.buffers.load(buffer, data)
        return None

    # --- what a drafter overrides -----------------------------------------------------------------------------------
    states_before = 0  # positions from a row back to the state that it goes on from

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return what goes into the first layer, `[rows, hidden]`; `places` are of the states that rows go on from."""
        embedded = self.weights.embedding(token_ids)
        return embedded if self._embedding_scale == 1.0 else embedded.mul_(self._embedding_scale)

    def embed_for_layers(self, token_ids: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor | None:
        """Return what each layer is given of the tokens, `[rows, layers, size]`; None where that is nothing.

        Args:
            token_ids: `[rows]`.
            embedded: what goes into the first layer, `[rows, hidden]`.
        """
        inputs = self.weights.layer_inputs
        return None if inputs is None else inputs(token_ids, embedded)

    def store_states(self, batch: Batch, states: torch.Tensor) -> None:
        """Store what a drafter goes on from; `states` is `[rows, hidden]`, after the final norm."""
        if self.states is not None:
            self.states.write(batch.places, batch.hidden if self.states.pre_norm else states)

    def compute_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of the tokens after rows of `states`, float32 `[rows, vocab]`."""
        return _scaled_logits(self._head(states).float(), self.config.scales)

    def build_mask(self, segments: Sequence[Segment], window: int | None, group: int) -> torch.Tensor | None:
        """Build the step's mask for layers with this window and so many query heads of a KV head, as `step_mask`."""
        return step_mask(segments, window, group, self._device, self._dtype)


def _scaled_logits(logits: torch.Tensor, scales: Scales) -> torch.Tensor:
    """Scale and cap logits, in place."""
    if (cap := scales.logits_softcap) is not None:
        return logits.mul_(scales.logits / cap).tanh_().mul_(cap)
    return logits if scales.logits == 1.0 else logits.mul_(scales.logits)


def _stage_sampling(
    segments: Sequence[Segment],
    ranges: Sequence[range],
    staging: StagingBuffer,
    penalties: MaskPenalties,
    draws: TokenDraws | None,
) -> tuple[StagedTensor, SamplingBatch]:
    """Stage the rows after which a token is drawn, the last ones of each segment, and what these rows ask for."""
    pairs = zip(segments, ranges, strict=True)
    rows = [row for segment, own in pairs for row in own[len(own) - segment.num_sampled :]]
    specs = [spec for segment in segments for spec in segment.sample_specs]
    drafts = [draft for segment in segments if segment.sample for draft in (*segment.drafts, None)]
    return staging.ints(rows), SamplingBatch.stage(specs, drafts, staging, penalties, draws)


def _stage_prompt_rows(segments: Sequence[Segment], ranges: Sequence[range], staging: StagingBuffer) -> PromptRows:
    """Stage what the rows of prompts are to give besides KV."""
    pairs = zip(segments, ranges, strict=True)
    return PromptRows.stage([(own, segment.wanted, segment.mark) for segment, own in pairs], staging)


def _output(sampled: Sequence[SampledRow], sums: Sequence[float], given: RowsGiven | None) -> SegmentOutput:
    """Return one segment's output: its tokens up to the first row that did not accept its draft."""
    if given is None or not all(map(math.isfinite, sums)) or not all(row.finite for row in sampled):
        return SegmentOutput(finite=False)
    accepted = len(list(takewhile(lambda row: row.accepted, sampled)))
    tokens = tuple(row.token for row in sampled[: accepted + 1])
    return SegmentOutput(finite=True, tokens=tokens, given=given)


def _places(segments: Sequence[Segment], before: int = 0) -> list[int]:
    """Return the places of all rows, or of the positions that lie so many before them."""
    tables = ((segment.pages, segment.start - before, segment.end - before) for segment in segments)
    return [place for pages, start, end in tables for place in pages.places(start, end)]


def _row_ranges(segments: Sequence[Segment]) -> list[range]:
    """Return the rows of each segment in the batch."""
    ranges, start = [], 0
    for segment in segments:
        ranges.append(range(start, start + len(segment.token_ids)))
        start += len(segment.token_ids)
    return ranges
