"""Signals while the server loads, also as process 1 of a container, which has no default action; and broken streams."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.store.resolve import resolve_model
from tests.live.server import COMPLETIONS, DEFAULTS, PATIENCE, Server, command, environment, wait_for

AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--mount-proc")
AS_ANY_PROCESS: tuple[str, ...] = ()


class Starting:
    """A server that never gets farther than its model's weights, which are a pipe that nobody writes to."""

    def __init__(self, folder: Path, prefix: tuple[str, ...]) -> None:
        shutil.copytree(resolve_model(None), folder, ignore=shutil.ignore_patterns("*.safetensors"))
        self._weights = folder / "model.safetensors"
        os.mkfifo(self._weights)
        self._log = folder.with_suffix(".log")
        with self._log.open("w") as log:
            self._outer = subprocess.Popen(
                [*prefix, *command("serve", str(folder), *DEFAULTS)], stderr=log, env=environment()
            )
        self._is_inner = bool(prefix)
        self._pipe: int | None = None

    def log(self) -> str:
        """Return what the server has written so far."""
        return self._log.read_text(encoding="utf-8")

    def imports(self) -> bool:
        """Return whether it is importing torch, or farther."""
        return "loading" in self.log()

    def reads(self) -> bool:
        """Return whether a thread of it reads the weights; from then on it waits for the rest, which does not come.

        The pipe stays open: at its end the server would open it again, by a library that keeps the interpreter.
        """
        try:
            self._pipe = os.open(self._weights, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        outer = psutil.Process(self._outer.pid)
        (server,) = outer.children() if self._is_inner else (outer,)
        server.send_signal(number)

    def wait_exit(self) -> int:
        """Wait for its end and return its exit status."""
        return self._outer.wait(PATIENCE)

    def end(self) -> None:
        """End whatever is left of it."""
        if self._pipe is not None:
            os.close(self._pipe)
        if self._outer.poll() is None:
            for process in psutil.Process(self._outer.pid).children():
                process.kill()
            self._outer.kill()
            self._outer.wait()


CASES: dict[str, tuple[tuple[str, ...], Callable[[Starting], bool], signal.Signals]] = {
    "importing torch": (AS_ANY_PROCESS, Starting.imports, signal.SIGINT),
    "reading weights": (AS_ANY_PROCESS, Starting.reads, signal.SIGTERM),
    "process 1, importing torch": (AS_PROCESS_1, Starting.imports, signal.SIGTERM),
    "process 1, reading weights": (AS_PROCESS_1, Starting.reads, signal.SIGINT),
}


@pytest.fixture(scope="module")
def can_be_process_1() -> bool:
    """Return whether this machine lets us make a space of processes."""
    if shutil.which(AS_PROCESS_1[0]) is None:
        return False
    return subprocess.run([*AS_PROCESS_1, "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def starting(tmp_path_factory: pytest.TempPathFactory, can_be_process_1: bool) -> Iterator[dict[str, Starting]]:
    """A server for each case, all started at a time."""
    made: dict[str, Starting] = {}
    try:
        for name, (prefix, _, _) in CASES.items():
            if can_be_process_1 or prefix is AS_ANY_PROCESS:
                made[name] = Starting(tmp_path_factory.mktemp("starting") / "model", prefix)
        yield made
    finally:
        for server in made.values():
            server.end()


@pytest.mark.parametrize("case", CASES)
def test_a_signal_ends_a_server_that_loads(case: str, starting: dict[str, Starting]) -> None:
    """In good order, because nothing is lost; a container's supervisor waits ten seconds for it, and then kills."""
    if case not in starting:
        pytest.skip("cannot be process 1 here")
    server = starting[case]
    _, is_there, number = CASES[case]
    wait_for(lambda: is_there(server), case)
    server.signal(number)
    assert server.wait_exit() == 0
    *_, last = server.log().splitlines()
    assert last.endswith(f"INFO    web    {number.name}: stopped before anything was served")


# --- standard streams -------------------------------------------------------------------------------------------------


class OddStreams(Server):
    """A server whose standard streams a shell's redirections, or nobody's reading, have made odd."""

    def __init__(self, log: Path, redirections: str, **options: Any) -> None:  # noqa: ANN401
        arguments = command("serve", *DEFAULTS, "--log-level", "info")
        self._log = log.open("w+", encoding="utf-8")
        self._url = ""
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {redirections}', "sh", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
            **options,
        )

    def wait_ready(self) -> str:
        """The line that says where it listens, from its log where its announcement goes nowhere."""
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            return super().wait_ready()
        (self._url,) = wait_for(lambda: re.findall(r"listening at (\S+)", self.log()), "its address")
        return self._url


def deaf(log: Path) -> Server:
    """One whose announcement's reader has gone."""
    server = OddStreams(log, "")
    assert server.process.stdout is not None
    server.process.stdout.close()
    return server


def test_it_serves_whatever_its_standard_streams_are(tmp_path: Path) -> None:
    servers = {
        "no input and no error": OddStreams(tmp_path / "1.log", "<&- 2>&-"),
        "no reader": deaf(tmp_path / "2.log"),
    }
    try:
        for name, server in servers.items():
            status, _ = server.ask("POST", COMPLETIONS, {"prompt": "def", "max_tokens": 2})
            assert status == 200, name
            server.signal(signal.SIGTERM)
            assert server.wait_exit() == 0, name
            assert "Traceback" not in server.log(), name
        assert re.search(r"INFO    web    stopped; requests served: 1$", servers["no reader"].log(), re.MULTILINE)
        assert "WARNING" not in servers["no reader"].log(), "an ordinary stop is none"
    finally:
        for server in servers.values():
            server.end()


def test_the_doctor_does_not_mind_that_nobody_reads_on() -> None:
    with subprocess.Popen(
        command("doctor"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as doctor:
        assert doctor.stdout is not None
        assert doctor.stderr is not None
        doctor.stdout.close()
        assert doctor.stderr.read() == ""
    assert doctor.returncode == 0
