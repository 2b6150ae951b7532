"""The device of a simulated worker, which stands still while its process is frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import outcome

    from runtime.step.executor import Executor
    from runtime.step.job import StepJob
    from runtime.step.step import StepResult
    from runtime.step.transfer import KVData, Transfer
    from tests.sim.cluster.network import Process


class FreezableExecutor:
    """Runs steps while its process runs.

    Args:
        inner: what runs them.
        process: of the worker.
    """

    def __init__(self, inner: Executor, process: Process) -> None:
        self._inner = inner
        self._process = process

    def wall_clock(self) -> float:
        """Now, in seconds since the epoch, as the inner executor has it."""
        return self._inner.wall_clock()

    def clock(self) -> float:
        """The inner one's."""
        return self._inner.clock()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step; its end is not heard of before the process runs again."""
        await self._process.wait_runs()
        try:
            return await self._inner.run_step(job)
        finally:
            await self._process.wait_runs()

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV."""
        await self._process.wait_runs()
        return await self._inner.transfer(transfers)

    async def recover(self) -> None:
        """Come back after a loss."""
        await self._inner.recover()
