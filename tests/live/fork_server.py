"""Servers that are up in a fraction of a second: forked from a process that has imported everything already.

They run the very command line, listen on real sockets and die of real signals, like `tests.live.server.Server`; only
the imports, most of a start's time, are done once for all of them.  Two things are added: when such a server ends, the
engine's integrity is looked at, and `end` fails where it is broken; and a test can hold its device for a while, so that
no generation gets anywhere meanwhile, however fast the machine is.
"""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from actors.engine import Engine
from runtime.step.step import StepModel
from tests.live.server import ANNOUNCEMENT, DEFAULTS, PATIENCE, ROOT, Server, wait_for
from web.commands.main import main
from web.process.hooks import ServerHooks
from web.process.torch_settings import TORCH_SETTINGS


@cache
def _forks() -> ForkServerContext:
    """The process to fork from.  Torch is only imported there, so it has no threads that a fork would lose."""
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["web.serving.server", "tests.live.fork_server"])
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        patch.setenv("HF_HUB_OFFLINE", "1")
        for name, value in TORCH_SETTINGS.items():  # read when torch is loaded
            patch.setenv(name, value)
        patch.setenv("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
    return context


def run_forked(arguments: tuple[str, ...], environment: Mapping[str, str], out: Path, log: Path, gate: Path) -> None:
    """Run the command line in a process that was forked for it.

    Args:
        arguments: of the command line.
        environment: variables beside ours.
        out: a file for its standard output.
        log: one for its standard error.
        gate: a file; while it is locked, the device begins no layer.
    """
    for path, number in ((out, 1), (log, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerHooks, "attend", _attend)
        patch.setattr(ServerHooks, "model", staticmethod(partial(_GatedModel, gate)))
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            main(list(arguments))
        finally:
            logging.shutdown()  # as at an ordinary exit, which a fork has not


class _GatedModel:
    """A model that waits before each layer for as long as a test holds the lock of a file.

    The kernel keeps that lock, and it ends with its holder: no process can be left waiting for one that was killed.
    """

    def __init__(self, gate: Path, model: StepModel[Any], *, drafting: bool) -> None:
        self.num_layers = model.num_layers
        self._model = model
        self._gate = os.open(gate, os.O_RDWR)
        self.begin, self.shrink, self.abandon = model.begin, model.shrink, model.abandon
        self.finish, self.transfer = model.finish, model.transfer

    def run_layer(self, batch: Any, index: int) -> int:  # noqa: ANN401
        """Run a layer, once nobody holds the device."""
        fcntl.flock(self._gate, fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return self._model.run_layer(batch, index)


@asynccontextmanager
async def _attend(_: ServerHooks, engine: Engine) -> AsyncIterator[None]:
    """Look at the engine's integrity when the server has ended in good order; where it is broken, say so in the log."""
    yield
    try:
        engine.check_integrity()
    except Exception as error:
        print(f"{BROKEN}: {error!r}", file=sys.stderr, flush=True)
        raise


BROKEN = "the engine's integrity is broken"


class ForkedServer(Server):
    """Like its base class.  What it writes goes to `folder`, one file of its own for each stream.

    Attributes:
        arguments: of the command line, before the flags.
        announcement: how the line begins in which it says that it serves.
        run: what the process runs, by default `run_forked`.
    """

    arguments: ClassVar[tuple[str, ...]] = ("serve", *DEFAULTS)
    announcement: ClassVar[str] = ANNOUNCEMENT
    run: ClassVar[Callable[..., None]] = staticmethod(run_forked)

    def __init__(self, folder: Path, *flags: str, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        number = len(list(folder.glob("server-*.log")))
        self._out, log = folder / f"server-{number}.out", folder / f"server-{number}.log"
        self._log = log.open("w+", encoding="utf-8")
        self._url = ""
        self._gate = folder / f"server-{number}.gate"
        self._gate.touch()
        arguments = (*self.arguments, *flags)
        self._fork = _forks().Process(target=self.run, args=(arguments, dict(environment), self._out, log, self._gate))
        self._fork.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._fork.pid is not None
        return self._fork.pid

    def wait_ready(self) -> str:
        """The line that says where the server listens."""
        line = wait_for(lambda: self._announced() or self._has_ended(), "the announcement")
        assert isinstance(line, str), f"the server has ended: {self.log()}"
        self._url = line.split()[-1]
        return line.rstrip("\n")

    def _announced(self) -> str:
        lines = self._out.read_text(encoding="utf-8").splitlines(keepends=True) if self._out.exists() else []
        return next((line for line in lines if line.startswith(self.announcement) and line.endswith("\n")), "")

    def signal(self, number: signal.Signals) -> None:
        """Send this process a signal."""
        os.kill(self.pid, number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the scope lasts, the device begins no layer: what generates goes on generating, what waits waits.

        A server that is held for longer than its hang timeout takes its device for lost.
        """
        gate = os.open(self._gate, os.O_RDWR)
        try:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield
        finally:
            os.close(gate)

    def said(self) -> str:
        """Return what it has written to its standard output so far."""
        return self._out.read_text(encoding="utf-8")

    def _has_ended(self) -> bool:
        return self._fork.exitcode is not None

    def wait_exit(self) -> int:
        """The exit status."""
        self._fork.join(PATIENCE)
        assert self._fork.exitcode is not None, f"the server lives on: {self.log()[-4000:]}"
        return self._fork.exitcode

    def end(self) -> None:
        """End the process, the polite way first.  Raises AssertionError where that was not enough."""
        if self._log.closed:
            return
        try:
            if self._fork.exitcode is None:
                self._fork.terminate()
            self.wait_exit()
            assert BROKEN not in self.log(), self.log()[-4000:]
        finally:
            if self._fork.exitcode is None:
                self._fork.kill()
                self._fork.join()
            self._log.close()
