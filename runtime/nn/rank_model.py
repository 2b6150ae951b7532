"""The shares of a model that several ranks compute together.

Rank 0's is driven as any model is; the others' do what that one tells them.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import torch

from runtime.devices.parallel.lines import Rows, StepOrder
from runtime.devices.parallel.marks import agree, with_asked_marks
from runtime.devices.parallel.shared_step import StepAborted, Sum
from runtime.errors import DeviceLost
from runtime.nn.model import Transformer
from runtime.step.step import SegmentOutput, run_step
from runtime.step.transfer import Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.parallel.group import Group
    from runtime.devices.parallel.lines import Line, Lines
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import Batch
    from runtime.nn.model import HiddenStates
    from runtime.nn.weights import Weights
    from runtime.step.step import Segment

logger = logging.getLogger("cede.model")

LENGTHS = 2  # numbers of a row: of all query heads, and of all key heads


class RankModel(Transformer):
    """A share of a model.

    Args:
        config: of the share.
        weights: likewise.
        kv: likewise.
        group: of all ranks.
        states: as of `Transformer`.
    """

    def __init__(
        self, config: ModelConfig, weights: Weights, kv: KVCache, group: Group, states: HiddenStates | None = None
    ) -> None:
        super().__init__(config, weights, kv, states)
        self.group = group
        hidden = Sum(config.hidden_size, weights.embedding.dtype)
        self._sums = [hidden, hidden]  # what attention adds, and what the MLP adds
        if config.qk_norm == "joint":
            self._sums.insert(0, Sum(LENGTHS, torch.float32))

    def _begin_together(self, segments: Sequence[Segment], own: Sequence[Segment]) -> Batch:
        """Begin a step of `segments`; its batch has `own`, which are the same with other marks."""
        step = self.group.begin(segments, self.num_layers, self._sums, self.weights.embedding.device)
        batch = super().begin(own)
        batch.whole = step.whole
        return batch


class LeadingModel(RankModel):
    """Rank 0's share.  Its steps want `Group.step` around them: the ranks have to agree on who is cancelled.

    Args:
        config, weights, kv, group, states: as of `RankModel`.
        lines: to the other ranks.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        kv: KVCache,
        group: Group,
        lines: Lines,
        states: HiddenStates | None = None,
    ) -> None:
        super().__init__(config, weights, kv, group, states)
        self._lines = lines
        self._agreed: Sequence[Segment] = ()

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Tell the other ranks what to compute, and begin to."""
        self._agreed = segments
        own = with_asked_marks(segments)  # for what comes behind the layers, where no other rank takes part
        self._lines.tell(StepOrder(tuple(Rows.of(segment) for segment in segments)))
        return self._begin_together(segments, own)

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Do so alone, as `Transformer.finish`; then it may be seen who was cancelled too late to be dropped."""
        outputs = super().finish(batch)
        for segment in self._agreed:
            agree(segment)
        return outputs


class FollowingModel(RankModel):
    """Another rank's share."""

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin what rank 0 began."""
        return self._begin_together(segments, segments)

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Draw nothing: that is rank 0's."""
        self._run_ahead.drain()
        return [SegmentOutput(finite=True) for _ in batch.segments]

    def follow(self, line: Line) -> None:
        """Do what rank 0 says, until it is gone.

        Raises:
            DeviceLost: another rank is gone.
            Exception: KV could not be moved, so this rank has not what the others have.
        """
        with torch.inference_mode():
            while True:
                try:
                    order = line.receive()
                except (EOFError, OSError):
                    return
                if isinstance(order, StepOrder):
                    self._follow_step(order)
                    continue
                moved = self.transfer(order)
                if isinstance(order, Save):
                    line.send(moved)

    def _follow_step(self, order: StepOrder) -> None:
        """Compute a step.  What fails here fails the step on all ranks, and may be tried again."""
        step = run_step(self, [rows.segment() for rows in order.rows], time.perf_counter)
        try:
            for _ in step:
                pass
        except DeviceLost:
            raise
        except StepAborted:
            return
        except Exception:
            logger.exception("rank %d failed in a step", self.group.share.rank)
            self.group.abort()
