"""Driving steps by hand: whole requests without a server, and a stub that records what `run_step` asks of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import c_int32
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.kv.cache import KVCache
from runtime.kv.pages import PageTable, in_one_piece, pages_for
from runtime.kv.rings import SLACK, plan_rings
from runtime.kv.states import StateBuffers
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.linear import WeightFormats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.weights import load_weights
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampledToken, SampleSpec, TokenLogprobs
from runtime.step.shortcuts import LayersTogether
from runtime.step.step import Segment, SegmentOutput, StepModel, StepResult, run_step
from runtime.step.transfer import Transfer
from runtime.testing.simulated import SimulatedModel

CPU = torch.device("cpu")


def open_transformer(
    folder: Path,
    *,
    slots: int = 4,
    context: int = 256,
    dtype: torch.dtype = torch.float32,
    formats: WeightFormats | None = None,
    slack: int = SLACK,
    kind: type[Transformer] = Transformer,
) -> Transformer:
    """The model in `folder` on the CPU, its KV full of NaN: whatever reads a row before writing it is found out.

    Layers with a window have a ring, where that with this `slack` takes less than the context.
    """
    config = open_checkpoint(folder).config
    rings = plan_rings(config.window, context, slack)
    kv = KVCache(config, slots=slots, context=context, device=CPU, dtype=dtype, rings=rings)
    for layer in range(config.num_layers):
        kv.layer(layer)[0].fill_(torch.nan)
    weights = load_weights(
        open_checkpoint(folder),
        device=CPU,
        dtype=dtype,
        formats=formats or choose_formats(Quantization.NONE, CPU, dtype),
    )
    buffers = None
    if config.is_hybrid:
        buffers = StateBuffers(config, count=slots * (context + 1), device=CPU, dtype=dtype)
        poison_states(buffers)
    return kind(config, weights, kv, buffers=buffers)


def poison_states(buffers: StateBuffers) -> None:
    """Fill all of them with NaN."""
    poison = torch.full((buffers.bytes_per_buffer,), 255, dtype=torch.uint8)
    for buffer in range(buffers.count):
        buffers.load(buffer, poison)


STATES_EVERY = 20  # positions


def with_states(model: Transformer, segments: Sequence[Segment]) -> Sequence[Segment]:
    """Name buffers for the states of a hybrid's segments: one of its own for each length of each slot; pages likewise.

    States are left behind the last row, behind each from the last certain one on, and now and then before that.
    """
    segments = with_pages(model, segments)
    if model.buffers is None:
        return segments
    named = []
    for segment in segments:
        first, certain = segment.slot * (model.context + 1), len(segment.token_ids) - len(segment.drafts)
        wanted = [
            rows
            for rows in range(1, len(segment.token_ids) + 1)
            if rows >= certain or (segment.start + rows) % STATES_EVERY == 0
        ]
        named.append(
            replace(
                segment,
                state=first + segment.start if segment.start else None,
                next_states=tuple((rows, first + segment.start + rows) for rows in wanted),
            )
        )
    return named


def random_tokens(count: int, *, below: int, seed: int) -> list[int]:
    """A prompt of no meaning."""
    tokens: list[int] = torch.randint(below, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    return tokens


def with_pages(model: Transformer | SimulatedModel, segments: Sequence[Segment]) -> Sequence[Segment]:
    """Give segments that name no pages those of their slots, each of which has as many as the context takes."""
    return [one if one.pages else replace(one, pages=pages_of(one.slot, model.context)) for one in segments]


def pages_of(slot: int, context: int) -> PageTable:
    """Return the pages of a slot, where each has as many as the context takes."""
    return in_one_piece(context, slot * pages_for(context))


class Ticks:
    """A clock of which every look is a tick later than the one before."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        """Return the next tick."""
        self.now += 1
        return self.now


def run(
    model: StepModel[Any],
    segments: Sequence[Segment],
    cancels: Mapping[int, Collection[Segment]] | None = None,
    clock: Callable[[], float] | None = None,
    together: LayersTogether[Any] | None = None,
) -> StepResult:
    """Run a step to its end, setting the marks of `cancels[0]` before it and of `cancels[n]` during its nth layer.

    In a model with KV each slot has pages of its own, for all of the context.
    """
    clock = clock or Ticks()
    own = with_pages(model, segments) if isinstance(model, Transformer | SimulatedModel) else segments
    own = with_states(model, own) if isinstance(model, Transformer) else own
    step = run_step(model, own, clock, together)
    layer = 0
    while True:
        for segment in (cancels or {}).get(layer, ()):
            segment.mark.set(clock)
        try:
            next(step)
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
        layer += 1


def greedy(length: int, *, logprobs: int | None = None) -> SampleSpec:
    """The likeliest token after a sequence of `length`."""
    return SampleSpec(SamplingParams(temperature=0, logprobs=logprobs), position=length, generated=0)


@dataclass
class Running:
    """A greedy request in `slot`, without a server: `prompt` in pieces of `chunk` tokens, then one token a step."""

    slot: int
    prompt: list[int]
    chunk: int = 1000
    committed: int = 0
    output: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs | None] = field(default_factory=list)

    def next_segment(self) -> Segment:
        """Return what the next step is to compute."""
        tokens = [*self.prompt, *self.output][self.committed :][: self.chunk]
        end = self.committed + len(tokens)
        sample = greedy(end, logprobs=0) if end >= len(self.prompt) else None
        return Segment(self.slot, self.committed, tokens, sample=sample)

    def commit(self, segment: Segment, tokens: Sequence[SampledToken]) -> None:
        """Take what a step has computed."""
        self.committed = segment.end
        for token in tokens:
            self.output.append(token.token_id)
            self.logprobs.append(token.logprobs)


def generate(model: StepModel[Any], sequences: Sequence[Running], tokens: int) -> list[list[int]]:
    """Bring all `sequences` to `tokens` more each, in steps that they share; returns their outputs."""
    goals = [len(sequence.output) + tokens for sequence in sequences]
    while running := [s for s, goal in zip(sequences, goals, strict=True) if len(s.output) < goal]:
        segments = [sequence.next_segment() for sequence in running]
        for sequence, segment, result in zip(running, segments, run(model, segments).segments, strict=True):
            assert result.computed
            sequence.commit(segment, result.tokens)
    return [sequence.output for sequence in sequences]


class RecordingModel:
    """A `StepModel` that does nothing and remembers what was asked of it.

    Args:
        num_layers: of each step.
        during: called in each layer with its index.
        unfinished: what `layer` says the device has still to do.
        broken: slots whose rows come out non-finite.
    """

    def __init__(
        self,
        num_layers: int = 3,
        *,
        during: Callable[[int], object] = lambda index: None,
        unfinished: int = 0,
        broken: Collection[int] = (),
    ) -> None:
        self.num_layers = num_layers
        self.calls: list[tuple[str, list[int]]] = []  # what was called, and the slots in the batch then
        self._during = during
        self._unfinished = unfinished
        self._broken = broken

    def begin(self, segments: Sequence[Segment]) -> list[Segment]:
        """Note the segments."""
        batch = list(segments)
        self._record("begin", batch)
        return batch

    def shrink(self, batch: list[Segment], kept: Sequence[int]) -> None:
        """Note which segments go on."""
        batch[:] = [batch[i] for i in kept]
        self._record("shrink", batch)

    def run_layer(self, batch: list[Segment], index: int) -> int:
        """Note the layer, and do what a test wants done in it."""
        self._record(f"layer {index}", batch)
        self._during(index)
        return self._unfinished

    def abandon(self, batch: list[Segment]) -> None:
        """Note that the step has no result."""
        self._record("abandon", batch)

    def finish(self, batch: list[Segment]) -> list[SegmentOutput]:
        """Note the end; each segment draws its slot's number."""
        self._record("finish", batch)
        return [SegmentOutput(segment.slot not in self._broken, (SampledToken(segment.slot),)) for segment in batch]

    def transfer(self, transfer: Transfer) -> None:
        """Raise NotImplementedError: it has no KV."""
        raise NotImplementedError

    def _record(self, name: str, batch: list[Segment]) -> None:
        self.calls.append((name, [segment.slot for segment in batch]))


class RecordingTogether(RecordingModel):
    """Likewise, and runs its layers in one call; it looks at marks as kernels do.

    Args:
        num_layers: of each step.
        during: called in each layer with its index.
        clock: which layers let go on.
        alone: layers that it does not run in one call with others.
        most: layers of a call.
    """

    def __init__(
        self,
        num_layers: int = 3,
        *,
        during: Callable[[int], None] = lambda index: None,
        clock: Callable[[], float] = time.perf_counter,
        alone: Collection[int] = (),
        most: int = 1000,
    ) -> None:
        super().__init__(num_layers, during=during)
        self.together: list[int] = []  # layers of each call
        self._clock = clock
        self._alone = alone
        self._most = most

    def run_layers(self, batch: list[Segment], first: int) -> list[float]:
        """Note each layer as `run_layer` does, up to one that is alone, or in which a mark is set."""
        began, ended = self._clock(), list[float]()
        for index in range(first, min(self.num_layers, first + self._most)):
            if index in self._alone:
                break
            self.run_layer(batch, index)
            ended.append(self._clock() - began)
            if any(c_int32.from_address(segment.mark.address).value for segment in batch):
                break
        self.together.append(len(ended))
        return ended
