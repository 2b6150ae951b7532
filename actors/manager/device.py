"""The executor as the slot manager's task uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import outcome

    from actors.core.mailbox import Mailbox
    from actors.core.slots import SlotTable
    from runtime.step.executor import Executor, LayerHook
    from runtime.step.follow_up import FollowUp
    from runtime.step.step import Segment, StepResult
    from runtime.step.transfer import KVData, Transfer


class Device:
    """Passes steps and transfers on to the executor, and has the queue served while they run.

    The manager's task cannot serve it meanwhile: it awaits the executor.  So it lends what it owns to its *clerk*, a
    task of its own nursery, until the executor is done.  At any moment one of the two may change things, and nobody
    else ever.  Slots that a running step names are changed by neither.

    A step that is followed by another one leaves the device at work when it ends: between two steps, which is when
    slots are changed.  Those that the step ahead names are not, until it is adopted or has been withdrawn.

    Args:
        executor: runs the steps.
        table: its owner is who owns everything.
        on_withdrawn: told of a step that ran ahead in vain, and what became of it; None if it did not begin, or raised.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        on_withdrawn: Callable[[Sequence[Segment], StepResult | None], None],
    ) -> None:
        self._executor = executor
        self._table = table
        self._on_withdrawn = on_withdrawn
        self._ahead: FollowUp | None = None  # runs, and nobody has planned it yet
        self._queued: FollowUp | None = None  # is to follow the step that runs
        self._clerk: trio.lowlevel.Task | None = None

    async def run_clerk(
        self,
        mailbox: Mailbox,
        serve: Callable[[], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be the clerk: call `serve` for each command on the queue that comes while the device is busy."""
        self._clerk = trio.lowlevel.current_task()
        task_status.started()
        while True:
            await mailbox.wait_for_queue_mail()
            if self._table.owner.is_current:  # else the manager's task is about to serve it
                serve()

    @property
    def is_called_off(self) -> bool:
        """Whether a step runs ahead, or has, although there was news before it began."""
        return self._ahead is not None and self._ahead.withdrawn.at is not None

    async def run_step(
        self,
        segments: Sequence[Segment],
        *,
        drafting: bool = False,
        layer_done: LayerHook | None = None,
        follow_up: FollowUp | None = None,
    ) -> StepResult:
        """Run a step, as the executor does, or adopt the one that runs ahead if that is the same."""
        if self._ahead is not None and not drafting and self._ahead.is_same(segments):
            segments = self._ahead.segments
            self._end_ahead()
        else:
            await self.retract()
        for segment in () if drafting else segments:  # the drafter has no rings
            end = segment.end + (follow_up is not None)
            self._table.note_written(self._table.slot(segment.slot), end)
        self._queued = follow_up
        with self._table.in_flight(segment.slot for segment in segments), self._lent():
            result = await self._executor.run_step(
                segments, drafting=drafting, layer_done=layer_done, follow_up=follow_up
            )
        if follow_up is not None and follow_up.is_begun:
            self._ahead = follow_up
            self._table.go_ahead(segment.slot for segment in segments)
        return result

    def call_off(self) -> None:
        """Have nothing follow the step that runs: there is news."""
        if self._queued is not None:
            self._queued.withdrawn.set(self.clock())

    async def retract(self) -> None:
        """Withdraw the step that runs ahead, if one does, and return once it has ended.

        Raises:
            DeviceLost: no step can run now.
        """
        if (ahead := self._ahead) is None:
            return
        ahead.withdrawn.set(self.clock())
        try:
            with self._lent():
                result = await self._executor.retract()
        finally:
            self._end_ahead()
        self._on_withdrawn(ahead.segments, result)

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV, as the executor does; no step runs ahead meanwhile."""
        await self.retract()
        with self._lent():
            return await self._executor.transfer(transfers)

    def _end_ahead(self) -> None:
        self._ahead = None
        self._table.go_ahead(())

    def clock(self) -> float:
        """Now, on the executor's clock."""
        return self._executor.clock()

    async def recover(self) -> None:
        """Wait for the device to come back, as the executor does."""
        await self._executor.recover()

    def _lent(self) -> AbstractContextManager[None]:
        assert self._clerk is not None, "the device is used before its clerk is there"
        return self._table.owner.lend(self._clerk)
