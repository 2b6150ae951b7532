"""Drafting and verifying by hand: whole greedy requests over a target and a drafter, without a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.kv.states import state_bytes
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.tokens import DraftToken
from runtime.step.step import Segment
from runtime.text.lookup import PromptLookup
from runtime.text.tokenizer import Tokenizer
from tests.models.step_driver import greedy, poison_states, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.nn.model import Transformer
    from runtime.sampling.tokens import SampledToken
    from runtime.step.step import StepModel


def open_pair(
    folder: Path,
    speculate: Proposer,
    *,
    draft: Path | None = None,
    slots: int = 4,
    context: int = 256,
    dtype: str = "float32",
) -> tuple[Transformer, Transformer | None]:
    """A target and its drafter on the CPU, loaded as the server does.

    Everything that they keep from step to step is NaN to begin with: whatever reads a row before writing it is found.
    """
    checkpoint = open_checkpoint(folder)
    options = LoadOptions(
        folder,
        slots=slots,
        context=context,
        device="cpu",
        dtype=dtype,
        threads=1,
        speculate=speculate,
        draft=draft,
        state_memory=slots * (context + 1) * state_bytes(checkpoint.config, getattr(torch, dtype)),
    )
    plan = plan_drafter(options, checkpoint, Tokenizer.load(checkpoint))
    target = load_model(options, checkpoint, plan)
    drafter = plan.load(target)
    for model in (target, drafter):
        if model is not None:
            poison(model)
    return target, drafter


def poison(model: Transformer) -> None:
    """Fill KV and states with NaN."""
    if model.buffers is not None:
        poison_states(model.buffers)
    for layer in range(model.num_layers):
        model.kv.layer(layer)[0].fill_(torch.nan)
    if model.states is not None:
        model.states.write(torch.arange(model.kv.positions), torch.tensor(torch.nan, dtype=model.kv.dtype))


@dataclass
class Speculating:
    """A greedy request in `slot`, of which `most` tokens are drafted at a time (0 for plain decoding).

    Attributes:
        chained: drafts stand on one another, not on the target, so but for the first they are read again (MTP).
        first: the first position that the drafter has a row for.
        committed, draft_length: how far the target's KV is valid, and the drafter's.
    """

    slot: int
    prompt: list[int]
    proposer: Proposer
    most: int
    chunk: int = 1000
    committed: int = 0
    output: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    draft_length: int = 0
    drafted: int = 0
    accepted: int = 0

    def __post_init__(self) -> None:
        """Say where the drafter's KV begins."""
        self.chained = self.proposer is Proposer.MTP
        self.first = self.draft_length = int(self.chained)

    @property
    def sequence(self) -> list[int]:
        """The prompt and what was said after it."""
        return [*self.prompt, *self.output]

    def look_up(self) -> None:
        """Draft without a model."""
        if self.output and self.proposer is Proposer.NGRAM:
            lookup = PromptLookup()
            lookup.extend(self.sequence)
            self.drafts = list(lookup.propose(self.most))

    def next_draft(self) -> Segment | None:
        """Return what the drafter is to run, until there are drafts enough."""
        if not self.output or self.proposer is Proposer.NGRAM or len(self.drafts) == self.most:
            return None
        tokens = [*self.sequence, *self.drafts]
        unread = tokens[self.draft_length :]
        return Segment(self.slot, self.draft_length, unread, sample=greedy(len(tokens)), first=self.first)

    def take_draft(self, segment: Segment, token: SampledToken) -> None:
        """Take a token that the drafter has drawn."""
        self.draft_length = segment.end
        self.drafts.append(token.token_id)

    def next_segment(self) -> Segment:
        """Return what the target is to run: a piece of the prompt, or the newest token and the drafts."""
        unread = self.sequence[self.committed :]
        tokens = unread[: self.chunk]
        end = self.committed + len(tokens)
        if len(tokens) < len(unread):
            return Segment(self.slot, self.committed, tokens)
        drafts = [DraftToken(token) for token in self.drafts]
        return Segment(self.slot, self.committed, [*tokens, *self.drafts], sample=greedy(end), drafts=drafts)

    def commit(self, segment: Segment, tokens: Sequence[SampledToken]) -> None:
        """Take what the target says, and trim both models to it."""
        before, accepted = len(self.sequence), max(0, len(tokens) - 1)
        self.committed = segment.end - len(self.drafts) + accepted
        self.draft_length = min(self.draft_length, before if self.chained else before + accepted)
        self.output += [token.token_id for token in tokens]
        self.drafted += len(self.drafts)
        self.accepted += accepted
        self.drafts = []


def speculate(
    target: StepModel[Any], drafter: StepModel[Any] | None, sequences: Sequence[Speculating], tokens: int
) -> list[list[int]]:
    """Bring all `sequences` to `tokens` of output each, in steps that they share; returns their outputs."""
    while running := [sequence for sequence in sequences if len(sequence.output) < tokens]:
        for sequence in running:
            sequence.look_up()
        while drafting := [(s, segment) for s in running if (segment := s.next_draft()) is not None]:
            assert drafter is not None
            results = run(drafter, [segment for _, segment in drafting]).segments
            for (sequence, segment), result in zip(drafting, results, strict=True):
                assert result.computed
                sequence.take_draft(segment, *result.tokens)
        segments = [sequence.next_segment() for sequence in running]
        for sequence, segment, result in zip(running, segments, run(target, segments).segments, strict=True):
            assert result.computed
            sequence.commit(segment, result.tokens)
    return [sequence.output[:tokens] for sequence in sequences]
