"""Findings of the self-test about steps that begin ahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from runtime.nn.ahead_model import AheadModel
from runtime.nn.layers.batch import Batch
from runtime.nn.model import Transformer
from runtime.selftest.findings import Mismatch, NotHere
from runtime.selftest.next_step import STEPS, check_next_step
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import open_transformer


class Stale(AheadModel):
    """Begins each step ahead with the token before the one that was drawn."""

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Embed something else."""
        return super().embed(token_ids.roll(1) if self.is_ahead else token_ids, places)

    is_ahead = False

    def begin_next(self, batch: Batch) -> int:
        """Begin it wrongly."""
        self.is_ahead = True
        try:
            return super().begin_next(batch)
        finally:
            self.is_ahead = False


class Lazy(AheadModel):
    """Begins every step anew, and leaves the one that was begun ahead alone."""

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin it anew."""
        self.drop_next()
        return super().begin(segments)


def model(folder: Path, kind: type[Transformer], family: str = "llama-bias") -> Transformer:
    FAMILIES[family](folder)
    return open_transformer(folder, kind=kind)


@torch.inference_mode()
@pytest.mark.parametrize(("kind", "family"), [(AheadModel, "llama-bias"), (Lazy, "llama-bias"), (AheadModel, "lfm2")])
def test_steps_that_are_right_pass(tmp_path: Path, kind: type[AheadModel], family: str) -> None:
    assert check_next_step(model(tmp_path, kind, family))["steps"] == STEPS


@torch.inference_mode()
def test_steps_that_are_wrong_are_told(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="by itself"):
        check_next_step(model(tmp_path, Stale))


def test_where_no_step_begins_ahead_nothing_is_checked(model: Transformer) -> None:
    with pytest.raises(NotHere, match="no step begins"):
        check_next_step(model)
