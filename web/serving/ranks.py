"""The other ranks' processes: children of this one, which all end when any of them does, and with it.

Each has a socket, by which its device thread is told what to do, and a pipe from here as its standard input, which ends
with this process.  They are in sessions of their own, so that a terminal's Ctrl-C comes to this process alone.  What
they write to their standard error goes into this process's log, so that nobody who does not read it holds up a rank.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from runtime.devices.parallel.lines import Line
from runtime.errors import CedeError
from runtime.loading.others import OtherRanks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

logger = logging.getLogger("cede.engine")

END_SECONDS = 1.0  # within which a rank ends that is told nothing any more, and half of that for one that is killed
MAX_LINE = 4096  # bytes of what a rank writes


class RankProcesses:
    """The other ranks, while their processes run; made by `open_ranks`.

    Attributes:
        others: to be told what to load, and to stand around steps.
        lost: why the group can compute nothing any more; None while it can.
    """

    def __init__(self, others: OtherRanks) -> None:
        self.others = others
        self.lost: str | None = None
        self._processes: list[trio.Process] = []
        self._has_lost = trio.Event()
        self._is_closing = False

    @property
    def pids(self) -> list[int]:
        """The processes' ids, from rank 1 on, those that run."""
        return [process.pid for process in self._processes if process.returncode is None]

    async def wait_lost(self) -> None:
        """Return once a rank's process has ended that was not to."""
        await self._has_lost.wait()

    async def start(self, numbers: list[int], nursery: trio.Nursery) -> None:
        """Start the processes, each with the socket that has this number here."""
        for rank, number in enumerate(numbers, 1):
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "runtime.loading.ranks", str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(number,),
                start_new_session=True,
            )
            self._processes.append(process)
            nursery.start_soon(self._watch, rank, process)
            nursery.start_soon(_log_lines, rank, process)

    async def close(self) -> None:
        """Wait a moment until all have ended, and kill who has not; what a driver holds even then is left."""
        self._is_closing = True
        for process in self._processes:
            if process.stdin is not None:
                await trio.aclose_forcefully(process.stdin)
        for seconds in (END_SECONDS, END_SECONDS / 2):
            with trio.move_on_after(seconds):
                for process in self._processes:
                    await process.wait()
            self._kill()
        if self.pids:
            logger.error("processes of ranks do not end, and are left: %s", self.pids)

    async def _watch(self, rank: int, process: trio.Process) -> None:
        status = await process.wait()
        if self._is_closing or self.lost is not None:
            return
        self.lost = f"rank {rank} of {1 + len(self._processes)} has ended with status {status}"
        logger.error("%s, and the others end with it", self.lost)
        self._kill()
        self._has_lost.set()

    def _kill(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()


async def _log_lines(rank: int, process: trio.Process) -> None:
    """Pass on what a rank writes until it ends: warnings, and why it ended."""
    assert process.stderr is not None
    rest, is_open = b"", True
    async with process.stderr:
        while is_open:
            data = await process.stderr.receive_some()
            *lines, rest = (rest + data).split(b"\n")
            is_open = bool(data)
            if len(rest) > MAX_LINE or not is_open:
                lines, rest = [*lines, rest], b""
            for line in filter(None, lines):
                logger.warning("rank %d: %s", rank, line.decode(errors="backslashreplace"))


@asynccontextmanager
async def open_ranks(of: int) -> AsyncIterator[RankProcesses | None]:
    """Open the processes of all ranks but rank 0, which this one is; None where that is the only one.

    They end with the scope, in which the device thread that talks to them has to end.  An error of cede's own leaves it
    as it is, and in no group: the command line says it in a line.
    """
    if of == 1:
        yield None
        return
    pipes = [Pipe() for _ in range(1, of)]
    lines = [Line(ours) for ours, _ in pipes]
    with tempfile.TemporaryDirectory(prefix="cede-ranks-") as folder:
        ranks = RankProcesses(OtherRanks(lines, Path(folder) / "store"))
        failed: CedeError | None = None
        async with trio.open_nursery() as watching:
            try:
                await ranks.start([theirs.fileno() for _, theirs in pipes], watching)
                for _, theirs in pipes:
                    theirs.close()
                yield ranks
            except CedeError as error:
                failed = error
            finally:
                with trio.CancelScope(shield=True):
                    for line in lines:
                        line.close()
                    await ranks.close()
                    watching.cancel_scope.deadline = trio.current_time() + END_SECONDS / 2  # for what they wrote last
        if failed is not None:
            raise failed
