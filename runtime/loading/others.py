"""Coordination of rank 0 with the other ranks while a model loads."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.devices.parallel.group import Group, process_group, sums_of
from runtime.devices.parallel.lines import Lines
from runtime.devices.parallel.share import Share
from runtime.errors import CheckpointError, DeviceLost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch

    from runtime.devices.parallel.lines import Line
    from runtime.loading.options import LoadOptions
    from runtime.step.step import Segment


@dataclass(frozen=True, slots=True)
class Start:
    """To a rank: what to load.

    Attributes:
        options: of rank 0, which has checked them.
        share: the rank's.
        threads: CPU threads of an operation.
        store: by which the ranks meet.
    """

    options: LoadOptions
    share: Share
    threads: int
    store: Path


@dataclass(frozen=True, slots=True)
class Loaded:
    """From a rank: its weights are there."""


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """From a rank: its weights cannot be loaded; `why` is a sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """To a rank: how much KV to allocate, as `KVCache` has it."""

    context: int
    positions: int


class OtherRanks:
    """Loads the other ranks' shares, and makes a group of all.  Used on the device thread, but for `step`.

    Args:
        lines: to the other ranks' processes, from rank 1 on.
        store: a file that does not exist yet, by which the ranks meet.
    """

    def __init__(self, lines: Sequence[Line], store: Path) -> None:
        self.lines = Lines(lines)
        self._of = 1 + len(lines)
        self._store = store
        self._group: Group | None = None

    @property
    def share(self) -> Share:
        """Rank 0's."""
        return Share(0, self._of)

    def start(self, options: LoadOptions, threads: int) -> None:
        """Tell them to load what rank 0 loads, each its share; `threads` are those of an operation."""
        shares = [Share(rank, self._of) for rank in range(1, self._of)]
        self.lines.tell_each([Start(options, share, threads, self._store) for share in shares])

    def wait_loaded(self) -> None:
        """Return once all have their weights.

        Raises:
            CheckpointError: one cannot have them, or has ended.
        """
        try:
            answers = self.lines.answers()
        except DeviceLost as error:
            raise CheckpointError(f"{error}, while it loaded its share of the model") from error
        for rank, answer in enumerate(answers, 1):
            if isinstance(answer, NotLoaded):
                raise CheckpointError(f"rank {rank}: {answer.why}")

    def join(self, context: int, positions: int, device: torch.device) -> Group:
        """Make a group of all ranks, whose KV has these sizes."""
        self.lines.tell(Sizes(context, positions))
        self._group = Group(self.share, sums_of(process_group(self.share, self._store, device)))
        return self._group

    def step(self, segments: Sequence[Segment]) -> AbstractContextManager[Sequence[Segment]]:
        """Stand around a step of the model, as `Group.step`."""
        return nullcontext(segments) if self._group is None else self._group.step(segments)
