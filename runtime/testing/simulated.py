"""A stand-in for a model whose every output is a function of the exact token history.

Its KV at a position is a hash chained over the tokens up to there, read back from the slot and never recomputed, and
its next token is a function of that hash.  So a stale row, a row of another sequence or a row that was never
committed changes every token after it: what a real model would blur, this one shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.sampling.random_numbers import splitmix64
from runtime.sampling.tokens import SampledToken
from runtime.step.step import SegmentOutput
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.step.step import Segment
    from runtime.step.transfer import Transfer

_ROOT = 0x5EED
_POISON = -1
_SIGN = 1 << 63  # states are unsigned, and torch's integers are not


def chain(state: int, token_id: int) -> int:
    """The KV of a token that follows a row of KV `state`."""
    return splitmix64(state ^ splitmix64(token_id))


@dataclass(slots=True)
class SimulatedBatch:
    """The segments still in the step."""

    segments: list[Segment]


class SimulatedModel:
    """A `StepModel` without tensors.

    Args:
        slots: how many sequences it has room for.
        context: positions per slot.
        num_layers: layer boundaries per step, where cancels take effect.
        vocab_size: token ids are below this.
    """

    def __init__(self, *, slots: int, context: int, num_layers: int = 4, vocab_size: int = 1000) -> None:
        self.num_layers = num_layers
        self.vocab_size = vocab_size
        self.kv = [[_POISON] * context for _ in range(slots)]
        self.states = [[_POISON] * context for _ in range(slots)]  # as the KV, but not where that was moved in

    def continuation(self, prompt: Sequence[int], tokens: int) -> list[int]:
        """What a request alone on a clean server must get: the oracle of the exactness tests."""
        state = _ROOT
        for token_id in prompt:
            state = chain(state, token_id)
        output: list[int] = []
        while len(output) < tokens:
            output.append(self.next_token(state))
            state = chain(state, output[-1])
        return output

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Take the segments in, and spoil the rows that they will write."""
        # A layer that is cut short leaves half-written rows behind; so does this.
        for segment in segments:
            for position in range(segment.start, segment.end):
                self.kv[segment.slot][position] = _POISON
        return SimulatedBatch(list(segments))

    def shrink(self, batch: SimulatedBatch, kept: Sequence[int]) -> None:
        """Go on with these segments only."""
        batch.segments = [batch.segments[i] for i in kept]

    def run_layer(self, batch: SimulatedBatch, index: int) -> int:
        """Write the KV in the last layer; nothing is left for the device to finish."""
        if index == self.num_layers - 1:
            for segment in batch.segments:
                self._write(segment)
        return 0

    def abandon(self, batch: SimulatedBatch) -> None:
        """Forget the segments."""
        batch.segments = []

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Draw what each segment asks for; all is finite."""
        return [SegmentOutput(True, tuple(map(SampledToken, self._sample(segment)))) for segment in batch.segments]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move rows of KV; a `Save` gives them as `[tokens]` of int64."""
        match transfer:
            case Save(slot, start, end):
                return torch.tensor([state - _SIGN for state in self.kv[slot][start:end]])
            case Load(slot, start, data):
                self.kv[slot][start : start + len(data)] = [state + _SIGN for state in data.tolist()]
            case Copy(source, slot, start, end):
                self.kv[slot][start:end] = self.kv[source][start:end]
        return None

    def _write(self, segment: Segment) -> None:
        kv = self.kv[segment.slot]
        state = kv[segment.start - 1] if segment.start > segment.first else _ROOT
        for position, token_id in enumerate(segment.token_ids, start=segment.start):
            state = chain(state, token_id)
            kv[position] = self.states[segment.slot][position] = state

    def _sample(self, segment: Segment) -> list[int]:
        """The tokens that a segment asks for: the drafts that are right, and the one that follows them."""
        if segment.sample is None:
            return []
        drafts, tokens = segment.drafts, list[int]()
        for i, position in enumerate(range(segment.end - 1 - len(drafts), segment.end)):
            tokens.append(self.next_token(self.kv[segment.slot][position]))
            if i < len(drafts) and drafts[i].token_id != tokens[-1]:
                break
        return tokens

    def next_token(self, state: int) -> int:
        """The token that follows a history of this state."""
        return splitmix64(state) % self.vocab_size


class _StandIn(int):
    """What takes the place of the target's state at a position until the target has been there."""


class SimulatedDrafter(SimulatedModel):
    """A drafter for a `SimulatedModel`, of one layer, that is right about a known share of tokens.

    Which ones is a function of the history as well: wherever its KV, or the state that it goes on from, is not that of
    the tokens before, its guesses are no better than chance, and the count of accepted drafts shows it.

    Args:
        target: of which it has the slots, context and vocabulary.
        accuracy: share of right guesses.
        from_states: goes on from the target's states, as an MTP module does.
    """

    def __init__(self, target: SimulatedModel, *, accuracy: float, from_states: bool = False) -> None:
        super().__init__(slots=len(target.kv), context=len(target.kv[0]), num_layers=1, vocab_size=target.vocab_size)
        self._target = target
        self._accuracy = accuracy
        self._from_states = from_states

    def guess(self, state: int) -> int:
        """What it takes for the next token after a history of this state."""
        token = self.next_token(state)
        right = splitmix64(state ^ 0xD4AF7) < self._accuracy * 2**64
        return token if right else (token + 1) % self.vocab_size

    def _sample(self, segment: Segment) -> list[int]:
        if segment.sample is None:
            return []
        last = segment.end - 1
        if not self._from_states:
            return [self.guess(self.kv[segment.slot][last])]
        states = self._target.states[segment.slot]
        states[last] = _StandIn(chain(states[last - 1], segment.token_ids[-1]))
        return [self.guess(states[last])]

    def _write(self, segment: Segment) -> None:
        """Rows that go on from what only stands in for the target's state are not those that will be right."""
        super()._write(segment)
        if self._from_states and isinstance(self._target.states[segment.slot][segment.start - 1], _StandIn):
            self.kv[segment.slot][segment.end - 1] ^= 1
