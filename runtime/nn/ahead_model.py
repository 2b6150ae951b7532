"""A model on a device that queues work: a step begins before the host has read the tokens that it goes on from.

What was drawn stays on the device, which the next step's rows are embedded from.  So the device has work while the host
reads, notes what the step gave and plans; otherwise it would wait for that between any two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.nn.model import Transformer
from runtime.sampling.staging import StagedTensor
from runtime.step.device import MAX_LAYERS_AHEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.nn.layers.batch import Batch
    from runtime.sampling.sampler import Drawn
    from runtime.step.step import Segment, SegmentOutput

UNKNOWN = 0  # stands for a token that the host has not read


@dataclass(slots=True)
class _Next:
    """A step that was begun ahead.

    Attributes:
        before: the step that it follows on.
        drawn: what that one drew.
        batch: of this one.
        token_ids: of its rows, once they have been read.
    """

    before: Batch
    drawn: Drawn
    batch: Batch
    token_ids: list[int] = field(default_factory=list)

    def is_of(self, segments: Sequence[Segment]) -> bool:
        """Return whether these segments are what was begun."""
        begun = [
            (one.slot, one.pages, one.start, one.state, one.next_states, token)
            for one, token in zip(self.batch.segments, self.token_ids, strict=False)
        ]
        return begun == [
            (one.slot, one.pages, one.start, one.state, one.next_states, *one.token_ids) for one in segments
        ]


class AheadModel(Transformer):
    """A `Transformer` that is a `NextStep`, too; on a CPU it would compute in vain now and then, and gain nothing."""

    _next: _Next | None = None

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Go on with what was begun, if it is this; or begin."""
        following, self._next = self._next, None
        if following is None or not following.is_of(segments):
            return super().begin(segments)
        following.batch.segments = list(segments)
        return following.batch

    def begin_next(self, batch: Batch) -> int:
        """Begin the step behind this one, as `NextStep.begin_next`."""
        drawn = self._draw(batch)
        drawn.send()
        following = self._begin(
            [segment.followed_by(UNKNOWN) for segment in batch.segments], StagedTensor.of(drawn.tokens)
        )
        layers = min(MAX_LAYERS_AHEAD, self.num_layers)
        for index in range(layers):
            super().run_layer(following, index)
        following.layers_ahead = layers
        self._next = _Next(batch, drawn, following)
        return layers

    def drop_next(self) -> None:
        """Wait for what was begun, and forget it."""
        self._next = None
        self._run_ahead.drain()

    def run_layer(self, batch: Batch, index: int) -> int:
        """Encode a layer, unless the device has it already."""
        return self._run_ahead.unfinished if index < batch.layers_ahead else super().run_layer(batch, index)

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Finish a step; where the next one has begun, without waiting for that."""
        following = self._next
        if following is None or following.before is not batch:
            return super().finish(batch)
        outputs = self._read(batch, following.drawn)
        following.token_ids = [token.token_id for output in outputs for token in output.tokens]
        return outputs
