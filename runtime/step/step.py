"""One device step: what goes in, what comes out, and the loop over layers where a cancel takes effect.

This is the part of the runtime that keeps the promises C1 and C2 of DESIGN.md, so it exists once.  `run_step` is a
plain generator over any `StepModel`; it yields once in each layer and knows nothing of threads, tensors or Trio.  The
executors differ only in what they do at a yield: the thread goes on at once, the simulation lets virtual time pass.
"""

from __future__ import annotations

import math
from ctypes import addressof, c_int32
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from runtime.kv.pages import NO_PAGES, PageTable
from runtime.step.prompt_rows.wanted import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import torch

    from runtime.sampling.tokens import DraftToken, SampledToken, SampleSpec
    from runtime.step.job import StepJob
    from runtime.step.prompt_rows.wanted import RowsGiven, RowsWanted
    from runtime.step.shortcuts import Ahead, LayersTogether
    from runtime.step.transfer import Transfer


class CancelMark:
    """Says that some work is cancelled: set once by the task that owns it, looked at at each layer boundary.

    Setting and reading are a single store and load, so it needs no lock.  It belongs to one generation: there is
    nothing process-wide that another's cancel could set (seed 2).

    Attributes:
        at: when it was set, on the executor's clock; None while it is not.
    """

    __slots__ = ("_flag", "at")

    def __init__(self) -> None:
        self.at: float | None = None
        self._flag = c_int32(0)

    def set(self, clock: Callable[[], float]) -> float:
        """Record the first cancel, which is now by this clock, and return its time; later ones change nothing."""
        if self.at is None:
            self.at = math.inf  # until the time is known, which is later than any look that found no flag
            self._flag.value = 1
            self.at = clock()
        return self.at

    @property
    def address(self) -> int:
        """The address of a number that is 0 until the mark is set, for kernels; valid as long as this object."""
        return addressof(self._flag)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One sequence's rows in a step: `token_ids` at positions `start`, `start + 1`, … of `slot`.

    Attributes:
        mark: says that the segment is cancelled.
        sample: how the token after the last row is drawn or, with `drafts`, after the last row before theirs; None
            where no token is wanted, as after all but the last prefill chunk.
        drafts: tokens to be verified, which the last of the rows are.
        first: no position before this one has KV; above 0 only where a drafter began in the middle of a sequence.
        pages: where the sequence lies in the pool of KV.
        wanted: what its rows, which are a prompt's, are to give besides KV; None for nothing.
        state: the buffer with the state of recurrent layers behind the first `start` tokens; None for that of a
            sequence's beginning.
        next_states: pairs of a number of rows and a buffer, in ascending order: the state behind so many of these rows
            is left in that buffer.  The last is behind all rows.  Empty where the model has no recurrent layers.
        spare_states: the buffers that a burst's next steps write, each step the one that was written longest ago: as
            many as keep the state that a step reads, while it is not sure that it counts and the next has begun.
    """

    slot: int
    start: int
    token_ids: Sequence[int]
    mark: CancelMark = field(default_factory=CancelMark)
    sample: SampleSpec | None = None
    drafts: Sequence[DraftToken] = ()
    first: int = 0
    wanted: RowsWanted | None = None
    pages: PageTable = NO_PAGES
    state: int | None = None
    next_states: tuple[tuple[int, int], ...] = ()
    spare_states: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The sequence's length once these rows are committed."""
        return self.start + len(self.token_ids)

    def piece(self, first: int, end: int) -> Segment:
        """Return the rows from `first` until `end`, as a layer computes them: they are asked for nothing behind it.

        The state behind a piece, which the next one goes on from, is in the buffer of the segment's last one meanwhile.
        """
        passed = [(end - first, buffer) for _, buffer in self.next_states[-1:]]
        wanted = [(rows - first, buffer) for rows, buffer in self.next_states if first < rows <= end]
        return Segment(
            self.slot,
            self.start + first,
            self.token_ids[first:end],
            self.mark,
            first=self.first,
            pages=self.pages,
            state=passed[0][1] if first and passed else self.state,
            next_states=(*wanted, *(passed if end < len(self.token_ids) else ())),
        )

    def followed_by(self, token_id: int) -> Segment:
        """Return the next row of its sequence, this token's, whose own is drawn as this one was.

        It reads the state that these rows left, and writes the first of the spare buffers.
        """
        assert self.sample is not None, "a row follows where a token was drawn"
        ring = self._ring
        return replace(
            self,
            start=self.end,
            token_ids=[token_id],
            sample=self.sample.after([token_id]),
            state=ring[0] if ring else None,
            next_states=((1, ring[1]),) if ring else (),
            spare_states=(*ring[2:], *ring[:1]),
        )

    def states_after(self, rows: int, begun: int = 0, *, goes_on: bool) -> dict[int, int]:
        """Return the buffers with a state once so many rows count, by the sequence's length.

        Args:
            rows: of these, or of a burst that began with them.
            begun: likewise, those that were run in part at least.  Where one of a burst does not count, the next may
                have begun, in the place of the state that is older than the one that both go on from.
            goes_on: the burst does, and will write all of its buffers but the one that its next step reads.
        """
        if not self.spare_states:
            return {self.start + end: buffer for end, buffer in self.next_states if end <= rows}
        first = rows if goes_on or begun > rows else rows - len(self.spare_states) + 1
        ring = self._ring
        before = {} if first > 0 or self.state is None else {self.start: self.state}
        return before | {self.start + end: ring[(end - 1) % len(ring)] for end in range(max(1, first), rows + 1)}

    @property
    def _ring(self) -> tuple[int, ...]:
        """The buffers that a burst writes in turns."""
        return (*(buffer for _, buffer in self.next_states[-1:]), *self.spare_states)

    @property
    def num_sampled(self) -> int:
        """The number of last rows after which a token is drawn: one, and one more for each draft."""
        return 0 if self.sample is None else 1 + len(self.drafts)

    @property
    def sample_specs(self) -> list[SampleSpec]:
        """Specifications of how the token after each of these rows is drawn."""
        if self.sample is None:
            return []
        drafted = [draft.token_id for draft in self.drafts]
        return [self.sample.after(drafted[:i]) for i in range(len(drafted) + 1)]


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """Result of one segment.

    Attributes:
        computed: every layer ran over its rows and the result was finite.  Only then may the rows be committed, and of
            the drafts' rows only those that were accepted.
        last_kernel_at: when the last layer over its rows ended; None if none ran.
        tokens: the accepted drafts, in order, and the token drawn after them; of a burst those of all its steps.  All
            but the last have been read, too.  None where none was wanted.
        finite: all its rows and logits were finite, as far as they were computed.
        layers_after_cancel: layers that ended after its mark was set, or that the device still had queued.
        given: what its rows gave besides KV; nothing where nobody waits for it any more.
        rows: of it that at least one layer ran over.
    """

    computed: bool
    last_kernel_at: float | None
    tokens: tuple[SampledToken, ...] = ()
    finite: bool = True
    layers_after_cancel: int = 0
    given: RowsGiven = NOTHING
    rows: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a step: one entry per segment, in the order given; times in seconds, on the executor's clock.

    Attributes:
        segments: what became of each.
        started_at, finished_at: of the whole.
        layer_ends: of the layers that ran.
        steps: how many there were, in a burst.
        following: what the burst goes on with, which has begun where it runs; None where it has ended.
    """

    segments: tuple[SegmentResult, ...]
    started_at: float
    finished_at: float
    layer_ends: tuple[float, ...]
    steps: int = 1
    following: StepJob | None = None

    @property
    def layers_run(self) -> int:
        """Return how many layers ran."""
        return len(self.layer_ends)


@dataclass(frozen=True, slots=True)
class SegmentOutput:
    """Result of `StepModel.finish` for one segment; the fields are those of `SegmentResult`."""

    finite: bool
    tokens: tuple[SampledToken, ...] = ()
    given: RowsGiven = NOTHING


BatchT = TypeVar("BatchT")


class StepModel(Protocol[BatchT]):
    """A model as `run_step` drives it; `BatchT` is its own record of the step in progress.

    Attributes:
        num_layers: layers of a step.
    """

    num_layers: int

    def begin(self, segments: Sequence[Segment]) -> BatchT:
        """Begin a step: embed the rows of all segments."""

    def shrink(self, batch: BatchT, kept: Sequence[int]) -> None:
        """Shrink the batch to the segments at the indices `kept` of those still in it."""

    def run_layer(self, batch: BatchT, index: int) -> int:
        """Run one layer over all rows, writing KV beyond the committed lengths.

        Returns:
            How many layers, this one included, the device has been given but has not finished: 0 where operations are
            synchronous.
        """

    def abandon(self, batch: BatchT) -> None:
        """Wait until the device has finished the layers of a step that goes no further."""

    def finish(self, batch: BatchT) -> list[SegmentOutput]:
        """Check that every row is finite, sample and verify where asked, and wait for the device."""

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move KV, between steps.

        Returns:
            What a `Save` copied, `[pieces, parts, kv_heads, tokens, dim]` in host memory; None for other transfers.
        """


def run_step(
    model: StepModel[BatchT],
    segments: Sequence[Segment],
    clock: Callable[[], float],
    together: LayersTogether[BatchT] | None = None,
    begun: Callable[[], None] | None = None,
    ahead: Ahead[BatchT] | None = None,
) -> Generator[None, None, StepResult]:
    """Run `segments` through `model`, dropping the rows of a cancelled one at the next layer boundary.

    Nobody else's rows are touched by a drop, and the step stops as soon as no segment is left.  A segment cancelled
    after the last layer was computed whole, so its rows are kept.

    Args:
        model: the target or the drafter.
        segments: at most one per slot.
        clock: tells the time of the results, in seconds.
        together: the model again, if it is to run several layers in one call where it can; None for each by itself.
        begun: called once the step has begun, before its layers; None for nothing.
        ahead: may have the next step begun, before anybody reads what this one drew; None where none follows.

    Yields:
        Once in each layer, or behind those that ran in one call.

    Returns:
        What became of the segments.
    """
    running = _RunningStep(model, segments, clock, ahead)
    if begun is not None:
        begun()
    while (index := len(running.layer_ends)) < model.num_layers:
        running.drop_cancelled()
        if not running.alive:
            break
        if together is not None and running.run_together(together):
            yield
            continue
        running.unfinished = model.run_layer(running.batch, index)
        yield  # before the layer's end is noted: in the simulation, its time passes here
        running.layer_ends.append(clock())
    if running.alive:
        running.finish()
    return running.result()


class _RunningStep(Generic[BatchT]):
    """A step under way: who is still in it, what became of the others, and when its layers ended.

    Attributes:
        alive: indices of the segments that are still in the batch, in order.
        layer_ends: when each layer ended, or was encoded where the device runs behind the host.
        unfinished: layers that the device has been given and not finished.
    """

    def __init__(
        self,
        model: StepModel[BatchT],
        segments: Sequence[Segment],
        clock: Callable[[], float],
        ahead: Ahead[BatchT] | None,
    ) -> None:
        self._model = model
        self._segments = segments
        self._clock = clock
        self._ahead = ahead
        self._started_at = clock()
        self.batch = model.begin(segments)
        self.alive = list(range(len(segments)))
        self.layer_ends: list[float] = []
        self.unfinished = 0 if ahead is None else ahead.layers_ahead
        self._results: dict[int, SegmentResult] = {}

    def drop_cancelled(self) -> None:
        """Take the rows of the cancelled segments out of the batch."""
        segments = self._segments
        # Each mark is read once: one set in between would otherwise be dropped here and kept there.
        kept = [position for position, i in enumerate(self.alive) if segments[i].mark.at is None]
        if len(kept) == len(self.alive):
            return
        survivors = [self.alive[position] for position in kept]
        if not survivors:
            self._model.abandon(self.batch)
        last_kernel_at = self._last_kernel_at(bool(survivors))
        for i in self.alive:
            if i not in survivors:
                self._results[i] = SegmentResult(
                    computed=False,
                    last_kernel_at=last_kernel_at,
                    layers_after_cancel=max(self.unfinished, self._layers_since(segments[i].mark.at)),
                    rows=0 if last_kernel_at is None else len(segments[i].token_ids),
                )
        if survivors:
            self._model.shrink(self.batch, kept)
        self.alive = survivors

    def run_together(self, model: LayersTogether[BatchT]) -> bool:
        """Run the next layers in one call; returns whether there were any."""
        began = self._clock()
        ended = model.run_layers(self.batch, len(self.layer_ends))
        self.layer_ends += [began + seconds for seconds in ended]
        return bool(ended)

    def finish(self) -> None:
        """Sample for the segments that are left, and wait for the device."""
        is_whole = len(self.alive) == len(self._segments)
        layers_of_next = 0 if self._ahead is None or not is_whole else self._ahead.begin_next(self.batch)
        outputs = self._model.finish(self.batch)
        finished_at = self._clock()
        for i, output in zip(self.alive, outputs, strict=True):
            self._results[i] = SegmentResult(
                computed=output.finite,
                last_kernel_at=finished_at,
                tokens=output.tokens if output.finite else (),
                finite=output.finite,
                layers_after_cancel=self._layers_since(self._segments[i].mark.at, layers_of_next),
                given=output.given,
                rows=len(self._segments[i].token_ids),
            )

    def result(self) -> StepResult:
        """Return what became of all segments."""
        return StepResult(
            segments=tuple(self._results[i] for i in range(len(self._segments))),
            started_at=self._started_at,
            finished_at=self._clock(),
            layer_ends=tuple(self.layer_ends),
        )

    def _last_kernel_at(self, others_go_on: bool) -> float | None:
        """Return when the last layer over a segment that is dropped now ended; None before the first layer.

        Where the device runs behind and others go on, that is when the layer was encoded; `unfinished` tells by how
        much.  Where nobody goes on, the device has been waited for.
        """
        if not self.layer_ends:
            return self._clock() if self.unfinished else None
        return self.layer_ends[-1] if others_go_on or not self.unfinished else self._clock()

    def _layers_since(self, cancelled_at: float | None, of_next: int = 0) -> int:
        """Return how many layers ended after a cancel; those of the next step that was begun ahead all do."""
        return 0 if cancelled_at is None else sum(end > cancelled_at for end in self.layer_ends) + of_next
