"""A step in progress, as the layers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from runtime.prompt_rows.gather import PromptRows
    from runtime.sampling.batch import SamplingBatch
    from runtime.step.step import Segment

    # Cosines and sines of the rows' positions, each [rows, 1, head_dim].
    Rotation = tuple[torch.Tensor, torch.Tensor]

    # From what this rank has of a sum, [rows, width], to the sum.
    Whole = Callable[[torch.Tensor], torch.Tensor]


def alone(part: torch.Tensor) -> torch.Tensor:
    """Return what a model on one device has of a sum: all of it."""
    return part


@dataclass(slots=True)
class Batch:
    """A step in progress: the segments still in it, and a row for each of their tokens, in order."""

    segments: list[Segment]
    ranges: list[range]  # each segment's rows
    hidden: torch.Tensor  # [rows, hidden]
    places: torch.Tensor  # [rows], where they lie in the arena of KV
    positions: torch.Tensor  # [rows], in their sequences
    sampled_rows: torch.Tensor  # [sampled rows], the rows after which a token is drawn
    sampling: SamplingBatch  # what these ask for
    prompt_rows: PromptRows  # what rows of prompts give besides KV
    rotations: list[Rotation]  # for each of the model's rotary embeddings (`ModelConfig.distinct_ropes`)
    masks: dict[int | None, torch.Tensor | None]  # by window, as `step_mask` makes them
    whole: Whole = alone  # adds up what each rank has of a sum
