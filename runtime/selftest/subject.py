"""A model under test whose scores can be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from runtime.nn.matrices.linear import Linear
from runtime.nn.model import Transformer
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.selftest.findings import Mismatch
from runtime.selftest.rates import GREEDY, placed
from runtime.selftest.states import with_states
from runtime.step.step import Segment, run_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.step.step import SegmentResult


class Overheard(Linear):
    """The head, with an ear to it: keeps the scores of each step, float32 `[rows, vocab]` on the host."""

    def __init__(self, head: Linear) -> None:
        super().__init__(head)
        self.scores: list[torch.Tensor] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Scores `[rows, vocab]` of states `[rows, hidden]`, of which a copy is kept."""
        scores = super().__call__(x)
        self.scores.append(scores.float().cpu())
        return scores


class Subject:
    """A model whose scores can be seen.  It shares weights, KV, states and kernels of single rows with `model`."""

    def __init__(self, model: Transformer) -> None:
        self._head = Overheard(model.weights.lm_head)
        weights = replace(model.weights, lm_head=self._head)
        self.model = Transformer(
            model.config, weights, model.kv, model.states, row_kernels=model.row_kernels, buffers=model.buffers
        )

    def run(
        self, *segments: Segment, on: Transformer | None = None, cancel: Segment | None = None
    ) -> tuple[list[SegmentResult], torch.Tensor]:
        """Run a step, in whose first layer `cancel` is cancelled; what came of it, and the scores of its sampled rows.

        `on` is a module that shares this model's head.
        """
        self._head.scores.clear()
        named = with_states(self.model.buffers if on is None else None, placed(self.model, segments))
        running = run_step(on or self.model, named, lambda: 0.0)
        next(running)
        if cancel is not None:
            cancel.mark.set(lambda: 0.0)
        try:
            while True:
                next(running)
        except StopIteration as stop:
            results = list(stop.value.segments)
        if not all(result.finite for result in results):
            raise Mismatch("the model yielded numbers that are not finite")
        return results, torch.cat([torch.empty(0, self.model.config.vocab_size), *self._head.scores])

    def score(self, slot: int, tokens: Sequence[int], chunk: int, start: int = 0) -> torch.Tensor:
        """The scores after each of `tokens`, which are read into the slot in chunks from position `start` on."""
        parts = [tokens[at : at + chunk] for at in range(0, len(tokens), chunk)]
        return torch.cat([self.run(judged(slot, start + at * chunk, part))[1] for at, part in enumerate(parts)])


def judged(slot: int, start: int, tokens: Sequence[int], plain: int = 1) -> Segment:
    """A segment whose rows are all scored but the first `plain` - 1: those after them are drafts to be verified."""
    sample = SampleSpec(GREEDY, start + plain, 0)
    return Segment(slot, start, tokens, sample=sample, drafts=[DraftToken(token) for token in tokens[plain:]])
