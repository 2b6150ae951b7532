"""The stand-in model and what is served, with faults that come from what a request holds, not from when it runs.

For faults by step, layer or write there is `runtime.testing.faults`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.errors import DeviceLost
from runtime.kv.blocks import BlockKey
from runtime.kv.pages import PageTable
from runtime.loading.served import ServedModel
from runtime.sampling.tokens import SampledToken
from runtime.step.step import Segment, SegmentOutput
from runtime.testing.simulated import SimulatedBatch, SimulatedModel
from runtime.text.stop_strings import StopAutomaton
from runtime.text.text_stream import TextStream
from runtime.text.tokenizer import Tokenizer

VOCABULARY = 389
CULPRIT = 389  # a token that the model never generates: for faults that only a prompt can meet


class PlantedFault(RuntimeError):
    """Error that the stand-in raises because `Faults` says so."""


@dataclass(slots=True)
class Faults:
    """Plan of what is to go wrong.  May be changed at any time."""

    raise_on: set[int] = field(default_factory=set)  # a step with any of these tokens raises
    not_finite_on: set[int] = field(default_factory=set)  # a segment with any of these yields NaN
    text_raises_on: set[int] = field(default_factory=set)  # a bug in the actor that turns this token into text
    flush_raises: bool = False
    text_cannot_be_made: bool = False  # a bug while a request is being built
    lost: str | None = None  # the device is gone, and this is why
    late_masks: bool = False  # nobody computes a grammar's mask before the device needs it


class FaultyModel(SimulatedModel):
    """The stand-in model, with faults; and it keeps a request's end tokens back as long as `min_tokens` asks."""

    def __init__(self, faults: Faults, *, vocabulary: int = VOCABULARY, **sizes: Any) -> None:  # noqa: ANN401
        super().__init__(vocab_size=vocabulary, **sizes)
        self.faults = faults

    def exact(self, pages: PageTable, length: int) -> int:
        """Return how many first rows of the sequence in these pages must be its tokens': all that no lie tainted."""
        return length

    def state_is_exact(self, buffer: int) -> bool:
        """Return whether the state in a buffer must be that of its tokens: no lie tainted it."""
        return True

    def may_be_tainted(self, keys: Set[BlockKey]) -> bool:
        """Return whether a lie was told about any of these blocks."""
        return False

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Begin a step, unless a fault is planted in it."""
        batch = super().begin(segments)
        if self.faults.lost is not None:
            raise DeviceLost(self.faults.lost)
        if any(self.faults.raise_on.intersection(segment.token_ids) for segment in segments):
            raise PlantedFault("the device ran into a planted fault")
        return batch

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Finish the step; segments with a planted fault are not finite."""
        return [
            SegmentOutput(finite=False)
            if self.faults.not_finite_on.intersection(segment.token_ids)
            else replace(output, tokens=tuple(_without_early_end(segment, token) for token in output.tokens))
            for segment, output in zip(batch.segments, super().finish(batch), strict=True)
        ]


def _without_early_end(segment: Segment, token: SampledToken) -> SampledToken:
    spec = segment.sample
    if spec is None or token.token_id not in spec.end_ids:
        return token
    return SampledToken((token.token_id + 1) % VOCABULARY) if spec.generated < spec.params.min_tokens else token


class FaultyText(TextStream):
    """A text stream that raises where it is told to."""

    def __init__(
        self,
        faults: Faults,
        tokenizer: Tokenizer,
        stop: StopAutomaton,
        *,
        continues: bool,
        visible: Collection[int],
    ) -> None:
        if faults.text_cannot_be_made:
            raise ZeroDivisionError("a planted bug")
        super().__init__(tokenizer, stop, continues=continues, visible=visible)
        self._faults = faults

    def push(self, token_id: int, *, match_stops: bool = True) -> Any:  # noqa: ANN401  TextDelta, or no return at all
        """Turn a token into text, or raise."""
        if token_id in self._faults.text_raises_on:
            raise ZeroDivisionError("a planted bug")
        return super().push(token_id, match_stops=match_stops)

    def flush(self) -> str:
        """Give what is held back, or raise."""
        if self._faults.flush_raises:
            raise ZeroDivisionError("a planted bug")
        return super().flush()


@dataclass(frozen=True, slots=True)
class FaultyServed(ServedModel):
    """Served model with faults in its text streams."""

    faults: Faults = field(default_factory=Faults)

    def text(
        self, stop: StopAutomaton, *, continues: bool = False, visible: Collection[int] = frozenset()
    ) -> TextStream:
        """A stream with the faults."""
        return FaultyText(self.faults, self.tokenizer, stop, continues=continues, visible=visible)
