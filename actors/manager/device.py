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
    from runtime.step.executor import Executor
    from runtime.step.job import StepJob
    from runtime.step.step import StepResult
    from runtime.step.transfer import KVData, Transfer


class Device:
    """Passes steps and transfers on to the executor, and has the queue served while they run.

    The manager's task cannot serve it meanwhile: it awaits the executor.  So it lends what it owns to its *queue
    server*, a task of its own nursery, until the executor is done.  At any moment one of the two may change things, and
    nobody else ever.  Slots that a running step names are changed by neither.

    Args:
        executor: runs the steps.
        table: its owner is who owns everything.
    """

    def __init__(self, executor: Executor, table: SlotTable) -> None:
        self._executor = executor
        self._table = table
        self._queue_server: trio.lowlevel.Task | None = None

    async def run_queue_server(
        self,
        mailbox: Mailbox,
        serve: Callable[[], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be the queue server: call `serve` for each command on the queue that comes while the device is busy."""
        self._queue_server = trio.lowlevel.current_task()
        task_status.started()
        while True:
            await mailbox.wait_for_queue_mail()
            if self._table.owner.is_current:  # else the manager's task is about to serve it
                serve()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run a step, or those of a burst that are told of at a time, as the executor does."""
        further = 0 if job.burst is None else job.burst.unheard - 1
        for segment in () if job.drafting else job.segments:  # the drafter has no rings
            self._table.note_written(self._table.slot(segment.slot), segment.end + further)
        with self._table.in_flight(segment.slot for segment in job.segments), self._lent():
            return await self._executor.run_step(job)

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV, as the executor does."""
        with self._lent():
            return await self._executor.transfer(transfers)

    def clock(self) -> float:
        """Now, on the executor's clock."""
        return self._executor.clock()

    def wall_clock(self) -> float:
        """Now, in seconds since the epoch, as the executor has it."""
        return self._executor.wall_clock()

    async def recover(self) -> None:
        """Wait for the device to come back, as the executor does."""
        await self._executor.recover()

    def _lent(self) -> AbstractContextManager[None]:
        assert self._queue_server is not None, "the device is used before its queue server is there"
        return self._table.owner.lend(self._queue_server)
