"""One device step: what goes in, what comes out, and the loop over layers where a cancel takes effect.

This is the part of the runtime that promises C1 and C2 of DESIGN.md, so it exists once.  `run_step` is a plain
generator over any `StepModel`; it yields once in each layer and knows nothing of threads, tensors or Trio.  The
executors differ only in what they do at a yield: the thread goes on at once, the simulation lets virtual time pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import torch

    from runtime.sampling.tokens import DraftToken, SampledToken, SampleSpec
    from runtime.step.transfer import Transfer


class CancelMark:
    """Set once by the task that owns some work, polled by the device thread at each layer boundary.

    A single attribute store and load, so it needs no lock.  It belongs to one lease: nothing process-wide can be
    tripped by somebody else's cancel (seed 2).
    """

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None  # on the executor's clock

    def set(self, now: float) -> None:
        """Record the first cancel; later ones change nothing."""
        if self.at is None:
            self.at = now


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One sequence's rows in a step: `token_ids` at positions `start`, `start + 1`, … of `slot`.

    Attributes:
        sample: how the token after the last row is drawn or, with `drafts`, after the last row before theirs; None
            where no token is wanted, as after all but the last prefill chunk.
        drafts: the last of the rows are these drafts, to be verified.
        first: no position before this one has KV; above 0 only where a drafter began in the middle of a sequence.
    """

    slot: int
    start: int
    token_ids: Sequence[int]
    mark: CancelMark = field(default_factory=CancelMark)
    sample: SampleSpec | None = None
    drafts: Sequence[DraftToken] = ()
    first: int = 0

    @property
    def end(self) -> int:
        """The sequence's length once these rows are committed."""
        return self.start + len(self.token_ids)

    @property
    def sampled(self) -> int:
        """How many of the last rows are followed by a token to be drawn: one, and one more for each draft."""
        return 0 if self.sample is None else 1 + len(self.drafts)

    @property
    def samples(self) -> list[SampleSpec]:
        """How the token after each of those is drawn."""
        if self.sample is None:
            return []
        drafted = [draft.token_id for draft in self.drafts]
        return [self.sample.after(drafted[:i]) for i in range(len(drafted) + 1)]


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """What became of one segment.

    `computed` says that every layer ran over its rows and the result was finite: only then may they be committed, and
    of the rows of drafts only those that were accepted.

    Attributes:
        tokens: the accepted drafts, in order, and the one drawn after them; none where none was wanted.
    """

    computed: bool
    last_kernel_at: float | None  # None: not one layer ran over it
    tokens: tuple[SampledToken, ...] = ()
    finite: bool = True
    layers_after_cancel: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """One entry per segment, in the order given; times on the executor's clock, in seconds."""

    segments: tuple[SegmentResult, ...]
    started_at: float
    finished_at: float
    layers_run: int


@dataclass(frozen=True, slots=True)
class SegmentOutput:
    """What `StepModel.finish` says of one surviving segment; `tokens` as in `SegmentResult`."""

    finite: bool
    tokens: tuple[SampledToken, ...] = ()


BatchT = TypeVar("BatchT")


class StepModel(Protocol[BatchT]):
    """A model as `run_step` drives it.  `BatchT` is its own record of the step in progress."""

    num_layers: int

    def begin(self, segments: Sequence[Segment]) -> BatchT:
        """Embed the rows of all segments."""

    def shrink(self, batch: BatchT, kept: Sequence[int]) -> None:
        """Shrink the batch to the segments at the indices `kept` of those still in it."""

    def run_layer(self, batch: BatchT, index: int) -> int:
        """Run one layer over all rows, writing KV beyond the committed lengths.

        Returns how many layers, this one included, the device has been given but has not finished: 0 where operations
        are synchronous.
        """

    def abandon(self, batch: BatchT) -> None:
        """Wait for what the device has still to finish of a step that goes no further."""

    def finish(self, batch: BatchT) -> list[SegmentOutput]:
        """Check that every row is finite, sample and verify where asked, and wait for the device."""

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move KV, between steps; what a `Save` copied, `[layers, 2, kv_heads, tokens, head_dim]` in host memory."""


def run_step(
    model: StepModel[BatchT], segments: Sequence[Segment], clock: Callable[[], float]
) -> Generator[None, None, StepResult]:
    """Run `segments` through `model`, dropping the rows of a cancelled one at the next layer boundary.

    Nobody else's rows are touched by a drop, and the step stops as soon as no segment is left.  A segment cancelled
    after the last layer has been computed whole, so its rows are kept.
    """
    started_at = clock()
    batch = model.begin(segments)
    alive = list(range(len(segments)))
    results: dict[int, SegmentResult] = {}
    layer_ends: list[float] = []
    unfinished = 0

    for index in range(model.num_layers):
        alive = _drop_cancelled(model, batch, segments, alive, results, layer_ends, unfinished, clock)
        if not alive:
            break
        unfinished = model.run_layer(batch, index)
        yield  # before the end is noted: in the simulation, the layer's time passes here
        layer_ends.append(clock())

    if alive:
        outputs = model.finish(batch)
        finished_at = clock()
        for i, output in zip(alive, outputs, strict=True):
            cancelled_at = segments[i].mark.at
            results[i] = SegmentResult(
                computed=output.finite,
                last_kernel_at=finished_at,
                tokens=output.tokens if output.finite else (),
                finite=output.finite,
                layers_after_cancel=_ended_after(cancelled_at, layer_ends),
            )
    return StepResult(
        segments=tuple(results[i] for i in range(len(segments))),
        started_at=started_at,
        finished_at=clock(),
        layers_run=len(layer_ends),
    )


def _drop_cancelled(
    model: StepModel[BatchT],
    batch: BatchT,
    segments: Sequence[Segment],
    alive: list[int],
    results: dict[int, SegmentResult],
    layer_ends: list[float],
    unfinished: int,
    clock: Callable[[], float],
) -> list[int]:
    """Take the cancelled segments out of the batch; returns the indices of those that go on."""
    # Each mark is read once: one set in between would otherwise be dropped here and kept there.
    kept = [position for position, i in enumerate(alive) if segments[i].mark.at is None]
    if len(kept) == len(alive):
        return alive
    survivors = [alive[position] for position in kept]
    if not survivors:
        model.abandon(batch)
    # Where the device runs behind and others go on, this is when the layer was encoded; `unfinished` tells by how much.
    last_kernel_at = None if not layer_ends else layer_ends[-1] if survivors or not unfinished else clock()
    for i in alive:
        if i not in survivors:
            results[i] = SegmentResult(
                computed=False,
                last_kernel_at=last_kernel_at,
                layers_after_cancel=max(unfinished, _ended_after(segments[i].mark.at, layer_ends)),
            )
    if survivors:
        model.shrink(batch, kept)
    return survivors


def _ended_after(cancelled_at: float | None, layer_ends: Sequence[float]) -> int:
    return 0 if cancelled_at is None else sum(end > cancelled_at for end in layer_ends)
