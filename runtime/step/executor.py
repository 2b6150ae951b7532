"""Where steps run: what every executor does, and the two that run them in the caller's own task.

The slot manager is the only caller and runs one thing at a time.  All executors drive the same `run_step`, so what a
test sees in the simulation is the code that serves.  A step runs on the target or, where there is one, on the drafter:
two models with KV of their own for the same slots.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import outcome
import trio

from runtime.errors import DeviceLost
from runtime.step.follow_up import next_segments
from runtime.step.step import run_step
from runtime.step.transfer import Relocate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    import torch

    from runtime.step.follow_up import FollowUp
    from runtime.step.step import Segment, StepModel, StepResult
    from runtime.step.transfer import Transfer

logger = logging.getLogger("cede.engine")

T = TypeVar("T")

LayerHook: TypeAlias = "Callable[[], None]"


class Executor(Protocol):
    """Runs steps, one at a time.

    Calls are not cancellable: a step that has begun is awaited to its end, which the segments' marks bring near.  Only
    a follow-up is under way while nobody awaits it.  It is adopted by whoever asks for its very segments; whatever else
    is asked for withdraws it first.
    """

    def clock(self) -> float:
        """Return the time in seconds, on the clock that step results and cancel marks use."""

    async def run_step(
        self,
        segments: Sequence[Segment],
        *,
        drafting: bool = False,
        layer_done: LayerHook | None = None,
        follow_up: FollowUp | None = None,
    ) -> StepResult:
        """Run one step, or await the end of the follow-up that runs, if these are its segments.

        Args:
            segments: the rows to compute.
            drafting: run it on the drafter, and not on the target.
            layer_done: called at the end of each layer, where the step runs: on the device thread, or in this task.  A
                follow-up has a hook of its own.
            follow_up: is to be begun as soon as the step has ended, if that was computed whole and all its segments can
                be followed.  An executor may leave it alone, and its segments empty.

        Raises:
            DeviceLost: no step can run now.  Its class says whether any will.
            Exception: whatever the model raised.  Nothing of the step may be committed.
        """

    async def retract(self) -> StepResult | None:
        """Withdraw the follow-up that is under way, and return once it has ended: what became of it; None if it raised.

        Raises:
            DeviceLost: as for `run_step`.
        """

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, in this order; one that raises does not keep the others from being tried.

        Raises:
            DeviceLost: as for `run_step`.
        """

    async def recover(self) -> None:
        """After a loss, return once steps can run again and nothing writes KV any more, which may be never.

        No KV from before the loss may be used.  Unlike the other calls this one can be cancelled.

        Raises:
            DeviceLost: it turns out that they never will.
        """


class InlineExecutor:
    """Runs each step at once in the caller's task: for unit tests, and for searches over layer boundaries."""

    def __init__(self, model: StepModel[Any], drafter: StepModel[Any] | None = None) -> None:
        self._model = model
        self._drafter = drafter

    def clock(self) -> float:
        """Return the time in seconds, as `time.perf_counter` tells it."""
        return time.perf_counter()

    async def run_step(
        self,
        segments: Sequence[Segment],
        *,
        drafting: bool = False,
        layer_done: LayerHook | None = None,
        follow_up: FollowUp | None = None,
    ) -> StepResult:
        """Run one step, as `Executor.run_step`; none is begun ahead."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        step = run_step(_choose(self._model, self._drafter, drafting), segments, self.clock)
        return run_to_end(step, layer_done)

    async def retract(self) -> StepResult | None:
        """Do nothing: no step is begun ahead."""
        return None

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, as `Executor.transfer`."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        return transfer_all(self._model, self._drafter, transfers)

    async def recover(self) -> None:
        """Do nothing: there is no thread to be lost."""


class SimulatedExecutor:
    """Spends virtual time per layer, so that under `trio.testing.MockClock` whole schedules run in microseconds.

    Args:
        model: its `finish` must not depend on real time.
        layer_seconds: how long a layer takes, of either model, from the number of rows in the step as it was submitted;
            asked once a layer, after its work is done.
        drafter: as `model`.
    """

    def __init__(
        self,
        model: StepModel[Any],
        layer_seconds: Callable[[int], float],
        drafter: StepModel[Any] | None = None,
    ) -> None:
        self._model = model
        self._drafter = drafter
        self._layer_seconds = layer_seconds
        self._ahead: _Ahead | None = None

    def clock(self) -> float:
        """Return the virtual time in seconds."""
        return trio.current_time()

    async def run_step(
        self,
        segments: Sequence[Segment],
        *,
        drafting: bool = False,
        layer_done: LayerHook | None = None,
        follow_up: FollowUp | None = None,
    ) -> StepResult:
        """Run one step, as `Executor.run_step`, and sleep after each layer."""
        if self._ahead is not None and segments is self._ahead.follow_up.segments:
            ahead, self._ahead = self._ahead, None
            result = await ahead.wait()
        else:
            await self.retract()
            model = _choose(self._model, self._drafter, drafting)
            with trio.CancelScope(shield=True):
                result = await self._run(run_step(model, segments, self.clock), segments, layer_done)
        if follow_up is not None:
            follow_up.segments = next_segments(segments, result)
            if follow_up.is_begun:
                self._ahead = _Ahead(follow_up)
                trio.lowlevel.spawn_system_task(self._run_ahead, self._ahead)
        return result

    async def retract(self) -> StepResult | None:
        """Withdraw the step that runs ahead, as `Executor.retract`."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        ahead.follow_up.withdrawn.set(self.clock())
        return await result_of_withdrawn(ahead.wait())

    async def _run(
        self, step: Generator[None, None, StepResult], segments: Sequence[Segment], layer_done: LayerHook | None
    ) -> StepResult:
        rows = sum(len(segment.token_ids) for segment in segments)
        while True:
            try:
                next(step)
            except StopIteration as stop:
                result: StepResult = stop.value
                return result
            await trio.sleep(self._layer_seconds(rows))
            if layer_done is not None:
                layer_done()

    async def _run_ahead(self, ahead: _Ahead) -> None:
        """Be the device, in a task of its own, while nobody awaits it."""
        follow_up = ahead.follow_up
        step = run_step(self._model, follow_up.segments, self.clock, follow_up.withdrawn)
        try:
            ahead.end = outcome.Value(await self._run(step, follow_up.segments, follow_up.layer_done))
        except (Exception, SystemExit) as error:
            ahead.end = outcome.Error(error)
        ahead.ended.set()

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, as `Executor.transfer`, after a sleep for each transfer."""
        with trio.CancelScope(shield=True):
            await trio.sleep(self._layer_seconds(0) * len(transfers))
        return transfer_all(self._model, self._drafter, transfers)

    async def recover(self) -> None:
        """Do nothing: there is no thread to be lost."""


class _Ahead:
    """A simulated step that runs ahead."""

    def __init__(self, follow_up: FollowUp) -> None:
        self.follow_up = follow_up
        self.ended = trio.Event()
        self.end: outcome.Outcome[StepResult]

    async def wait(self) -> StepResult:
        """Return its result, or raise what it raised."""
        with trio.CancelScope(shield=True):
            await self.ended.wait()
        return self.end.unwrap()


class NotCopied(Exception):
    """A piece of a sequence was not moved within the arena, since one before it was not."""


async def result_of_withdrawn(end: Awaitable[StepResult | None]) -> StepResult | None:
    """Return the result of a step that was withdrawn; None if it raised, which concerns nobody but who lost the device.

    Raises:
        DeviceLost: no step can run now.
    """
    try:
        return await end
    except DeviceLost:
        raise
    except Exception as error:
        logger.warning("a step that nobody wanted any more has failed: %r", error)
        return None


def run_to_end(step: Generator[None, None, StepResult], *layer_done: LayerHook | None) -> StepResult:
    """Run the rest of `step` on this thread, calling each `layer_done` that is not None at the end of each layer."""
    while True:
        try:
            next(step)
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
        for hook in layer_done:
            if hook is not None:
                hook()


def transfer_all(
    model: StepModel[Any], drafter: StepModel[Any] | None, transfers: Sequence[Transfer]
) -> list[outcome.Outcome[torch.Tensor | None]]:
    """Carry out `transfers` in order, and return what each returned or raised.

    They are of the target's KV, but for what moves within the arena: the drafter's has the same places there.  Such a
    piece is not copied behind one that failed: it may lie where that has to be copied from again.
    """
    results: list[outcome.Outcome[torch.Tensor | None]] = []
    has_failed = False
    for transfer in transfers:
        is_piece = isinstance(transfer, Relocate)
        if is_piece and has_failed:
            results.append(outcome.Error(NotCopied("a piece before this one could not be copied")))
            continue
        result = attempt(partial(transfer_one, model, drafter, transfer))
        has_failed |= is_piece and isinstance(result, outcome.Error)
        results.append(result)
    return results


def transfer_one(model: StepModel[Any], drafter: StepModel[Any] | None, transfer: Transfer) -> torch.Tensor | None:
    """Carry out a transfer, and return what the target returned."""
    if drafter is not None and isinstance(transfer, Relocate):
        drafter.transfer(transfer)
    return model.transfer(transfer)


def attempt(function: Callable[[], T]) -> outcome.Outcome[T]:
    """Return what `function` returns or raises; what is no Exception, such as SystemExit, passes through."""
    try:
        return outcome.Value(function())
    except Exception as error:
        return outcome.Error(error)


def _choose(model: StepModel[Any], drafter: StepModel[Any] | None, drafting: bool) -> StepModel[Any]:
    if not drafting:
        return model
    assert drafter is not None, "a drafting step needs a drafter"
    return drafter
