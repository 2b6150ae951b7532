"""The parts of a cluster, each a process that a test starts, holds and ends by itself.

They run the very command lines, but are forked (`ForkedServer`): up in a fraction of a second, their devices can be
held, and the engine's integrity is looked at when a worker ends in good order.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.live.cluster.clusters import WORKER, FrontDoor
from tests.live.fork_server import ForkedServer
from tests.live.server import DEFAULTS, wait_for

FLAGS = ("--slots", "2", "--chunk-tokens", "16", "--kv-ram", "64MiB")
FORGOTTEN = "discovery had forgotten"
"""So says a worker that stood still for long, and what it had written into discovery was removed by others."""


class ForkedWorker(ForkedServer):
    """A `cede worker`."""

    arguments: ClassVar[tuple[str, ...]] = ("worker", *DEFAULTS)
    announcement: ClassVar[str] = "worker "

    @property
    def worker_id(self) -> str:
        """Return what discovery calls it."""
        found = WORKER.match(self.wait_ready())
        assert found is not None
        return found["id"]

    @property
    def lives(self) -> bool:
        """Return whether the process is there."""
        return self._fork.exitcode is None

    def kill(self) -> None:
        """End it as `kill -9` does, and return when it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_exit()


class ForkedDoor(ForkedServer):
    """A `cede front-door`."""

    arguments: ClassVar[tuple[str, ...]] = ("front-door", "--port", "0", "--log-format", "text")
    announcement: ClassVar[str] = "cede cluster at "


class Parts(FrontDoor[ForkedWorker]):
    """A front door and workers that find each other.

    Args:
        folder: for their logs, and for discovery by files.
        flags: of the workers, beside `FLAGS`.
        workers: how many at first.
        door: flags of the front door.
        discovery: flags of all; by files in `folder` if there are none.
        environment: of all, beside ours.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        workers: int = 2,
        door: tuple[str, ...] = (),
        discovery: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._discovery = discovery or ("--discovery-dir", str(folder / "discovery"))
        self._flags = (*FLAGS, *self._discovery, *flags)
        self._door_flags = (*self._discovery, *door)
        self._environment = environment or {}
        self._stack = ExitStack()
        self._first = workers
        self.workers: list[ForkedWorker] = []
        self.door: ForkedDoor

    def __enter__(self) -> Self:
        """Start all, and return itself once requests are accepted."""
        with ExitStack() as stack:
            stack.callback(self._end)
            for _ in range(self._first):
                self.start_worker()
            self.open_door()
            self.wait_whole()
            stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End all that live, the polite way; workers before the front door."""
        self._end()

    def _end(self) -> None:
        with self._stack:
            for worker in self.workers:
                self._stack.callback(worker.end)

    def start_worker(self) -> ForkedWorker:
        """Start one more."""
        worker = ForkedWorker(self.folder, *self._flags, environment=self._environment)
        self.workers.append(worker)
        return worker

    def open_door(self) -> None:
        """Start a front door, in place of the one before."""
        self.door = ForkedDoor(self.folder, *self._door_flags, environment=self._environment)
        self._stack.callback(self.door.end)
        self.url = self.door.url

    def living(self) -> list[ForkedWorker]:
        """Return the workers that live."""
        return [worker for worker in self.workers if worker.lives]

    def wait_whole(self) -> None:
        """Wait until the front door knows the workers that live, and no others, and nothing runs."""
        there = {worker.worker_id for worker in self.living()}
        try:
            wait_for(lambda: self.known() == there, "the front door to know the workers")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.known()}, not {there}: {self.door.log()[-4000:]}") from None
        if there:
            wait_for(self.has_model, "the front door to serve their model")
        for worker in self.living():
            worker.wait_idle()

    def forgotten(self) -> int:
        """Return how often a worker was forgotten so far: never, unless the machine itself stood still or slept."""
        return self.log().count(FORGOTTEN)

    def log(self) -> str:
        """Return what the workers have logged, of those that are gone as well."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("server-*.log")))
