"""A cluster on one machine: the front door and its workers as child processes of one Trio nursery.

No child outlives its parent: each has a pipe from there as its standard input, and stops when that ends
(`stop_with_parent`).  Children are in sessions of their own, so that a terminal's Ctrl-C comes to the parent alone, who
stops them in order: workers first, each finishing its requests, then the front door.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from runtime.errors import CedeError
from web.process.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger("cede.web")

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0  # seconds before a child is started again; doubled each time
STEADY_SECONDS = 60.0  # so old a child was no failure to start
ENDING_SECONDS = 5.0
"""In which a child has to end once its requests have had their time.  It bounds each of its own waits by less, so this
is for one that stands still."""
KILLED_SECONDS = 1.0  # in which the system has to end one that is killed
MAX_LINE = 4096


class ClusterFailed(CedeError):
    """A child could not do what it is for."""


def stop_with_parent() -> None:
    """Stop this child as SIGTERM does when the parent is gone, which is when the standard input ends."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Program:
    """Program that a child runs.

    Attributes:
        name: for people.
        command: the program and its arguments.
        environment: all of it.
        grace: seconds that its requests have when it is to end.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    grace: float = 0.0


class Child:
    """A program that is started again when it ends, until it is stopped.  One that then does not end is killed.

    Args:
        program: what it runs.
        announced: called with the line in which a process says that it serves.
    """

    def __init__(self, program: Program, announced: Callable[[str], None]) -> None:
        self.program = program
        self.serves = trio.Event()
        self._announced = announced
        self._process: trio.Process | None = None
        self._stopping = trio.Event()

    async def run(self) -> None:
        """Run it until it is stopped.

        Raises:
            ClusterFailed: it ended before it ever served.
        """
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            began = trio.current_time()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            if not self.serves.is_set():
                raise ClusterFailed(f"{self.program.name} ended with status {status} before it served")
            delay = FIRST_DELAY if trio.current_time() - began > STEADY_SECONDS else delay
            logger.warning("%s ended with status %d; it is started again in %g s", self.program.name, status, delay)
            with trio.move_on_after(delay):
                await self._stopping.wait()
            delay = min(2 * delay, LONGEST_DELAY)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end; it is not started again."""
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _run_once(self) -> int:
        """Run one process to its end; returns its status."""
        process = await trio.lowlevel.open_process(
            list(self.program.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(self.program.environment),
            start_new_session=True,
        )
        self._process = process
        try:
            if self._stopping.is_set():  # while it was started
                process.send_signal(signal.SIGTERM)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._kill_when_late, process)
                assert process.stdout is not None
                await self._read_lines(process.stdout)
                status = await process.wait()
                nursery.cancel_scope.cancel()
            return status
        finally:
            await self._put_away(process)

    async def _kill_when_late(self, process: trio.Process) -> None:
        await self._stopping.wait()
        patience = self.program.grace + ENDING_SECONDS
        await trio.sleep(patience)
        logger.error("%s was to end and has not within %g s; it is killed", self.program.name, patience)
        process.kill()

    async def _put_away(self, process: trio.Process) -> None:
        """See it end, even amid a cancel."""
        if process.returncode is None:
            process.kill()
            with trio.move_on_after(KILLED_SECONDS, shield=True):
                await process.wait()
            if process.returncode is None:
                logger.error("%s was killed and has not ended within %g s", self.program.name, KILLED_SECONDS)
        await close_pipes(process)

    async def _read_lines(self, stream: trio.abc.ReceiveStream) -> None:
        """Pass on what it says; its first line says that it serves."""
        rest = b""
        async for data in stream:
            *lines, rest = (rest + data)[-MAX_LINE:].split(b"\n")
            for line in lines:
                self._announced(line.decode(errors="replace"))
                self.serves.set()


async def close_pipes(process: trio.Process) -> None:
    """Close our ends of a process's pipes, both of them, even amid a cancel."""
    with trio.CancelScope(shield=True):
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await trio.aclose_forcefully(stream)


async def run_children(workers: Sequence[Child], front_door: Child) -> None:
    """Run them until SIGTERM or SIGINT; the front door opens when all workers serve, and closes when all have ended.

    A second signal kills all that is left.

    Raises:
        ClusterFailed: one ended before it ever served; in a group.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signals, workers, front_door)
        await _run_in_order(workers, front_door)
        nursery.cancel_scope.cancel()


async def _run_in_order(workers: Sequence[Child], front_door: Child) -> None:
    waiting = trio.CancelScope()

    async def open_door() -> None:
        with waiting:
            for worker in workers:
                await worker.serves.wait()
        await front_door.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_door)
        async with trio.open_nursery() as theirs:
            for worker in workers:
                theirs.start_soon(worker.run)
        front_door.stop()
        waiting.cancel()


async def _stop_on_signals(workers: Sequence[Child], front_door: Child) -> None:
    with trio.open_signal_receiver(*SIGNALS) as signals:
        number = await anext(signals)
        logger.info("%s: the workers finish what they have", signal.Signals(number).name)
        for worker in workers:
            worker.stop()
        await anext(signals)
        for child in (*workers, front_door):
            child.stop(signal.SIGKILL)
