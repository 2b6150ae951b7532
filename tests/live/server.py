"""Real servers in processes of their own.

`Server` runs the command line's `serve` and looks in through the server's endpoints.  Everything here is synchronous,
and every wait is bounded by `PATIENCE`, which only a failing test uses up.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import selectors
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from urllib.parse import urlsplit

from runtime.step.device import MAX_LAYERS_AHEAD, select_device

T = TypeVar("T")
Json = dict[str, Any]

PATIENCE = 600.0  # seconds; the slowest machine takes its time over importing torch, and over a long prompt
ROOT = Path(__file__).parents[2]
ANNOUNCEMENT = "cede serves "
# Tests read the log as people do, and compare tokens, which are promised to be the same in float32.
DEFAULTS = ("--port", "0", "--log-format", "text", "--dtype", "float32")
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@cache
def most_layers_after_cancel() -> int:
    """The most layers that run for nobody: one, or those that a device may have queued.

    Not at import: where that has asked for CUDA devices, no process can be forked that uses them.
    """
    return 1 if select_device("auto").type == "cpu" else MAX_LAYERS_AHEAD


class Gone(Exception):
    """The server has ended the connection, or the stream, before the response was whole."""


def wait_for(condition: Callable[[], T], what: str) -> T:
    """The first truthy value of `condition`, which is asked again and again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if value := condition():
            return value
        assert time.monotonic() < deadline, f"waited {PATIENCE:g} s in vain for {what}"
        time.sleep(0.002)


def stage(phase: str) -> str:
    """A phase, where it does not matter whether tokens are drafted: drafting and verifying are parts of decoding."""
    return "decode" if phase in ("draft", "verify") else phase


def command(*arguments: str) -> list[str]:
    """The command line, without leaning on the console script."""
    return [sys.executable, "-m", "web", *arguments]


def installed_command(*arguments: str) -> list[str]:
    """Likewise, of what pip has installed; to be run in the environment that is for it."""
    return [sys.executable, "-P", "-m", "web", *arguments]


def environment(*, installed: bool = False) -> dict[str, str]:
    """Ours, with no way to a model hub, and this source tree in front unless what is installed is to be run."""
    if installed:
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


WITHOUT_TORCH = """
import json, sys
asked, sys.modules["torch"] = json.load(sys.stdin), None
from click.testing import CliRunner
from web.commands.main import main
for arguments in asked:
    ended = CliRunner().invoke(main, arguments)
    is_said = ended.exit_code in (1, 2) and isinstance(ended.exception, SystemExit) and not ended.stdout
    print(json.dumps(ended.stderr.splitlines()[-1] if is_said else repr(ended.exception or ended.output)))
"""


def refusals(asked: Iterable[Sequence[str]], **variables: str) -> list[str]:
    """Return the line with which each command fails where there is no torch, or what it does instead."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        input=json.dumps(list(asked)),
        capture_output=True,
        text=True,
        env=environment() | variables,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Server:
    """A server process.  Making one starts it; the first use, or `wait_ready`, waits for its announcement.

    Args:
        flags: of the command line.
        installed: whether it is what pip has installed, with its kernels, and not this tree, which may have none.
    """

    def __init__(self, *flags: str, installed: bool = False) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # closed by `end`
        self.process = subprocess.Popen(
            (installed_command if installed else command)("serve", *DEFAULTS, *flags),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(installed=installed),
        )
        self._url = ""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End the server."""
        self.end()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    @property
    def url(self) -> str:
        """As announced."""
        if not self._url:
            self.wait_ready()
        return self._url

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def wait_ready(self) -> str:
        """The line that says where the server listens."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE), f"no announcement: {self.log()}"
        line = self.process.stdout.readline().rstrip("\n")
        assert line.startswith(ANNOUNCEMENT), f"not an announcement: {line!r}, {self.log()}"
        self._url = line.rpartition(" ")[2]
        return line

    def log(self) -> str:
        """Return what the server has written to its standard error so far: all of it once the process has ended."""
        self._log.seek(0)
        return self._log.read()

    def wait_log(self, text: str) -> str:
        """Wait until `text` is in the log, which a thread of its own writes a little later; the log so far."""
        wait_for(lambda: text in self.log() or self._has_ended(), f"{text!r} in the log")
        log = self.log()
        assert text in log, f"the server has ended without {text!r}: {log[-4000:]}"
        return log

    def whole_log(self) -> str:
        """End the server in good order; all that it has written to its standard error."""
        self.signal(signal.SIGTERM)
        assert self.wait_exit() == 0, self.log()[-4000:]
        return self.log()

    def _has_ended(self) -> bool:
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send this process a signal."""
        self.process.send_signal(number)

    def wait_exit(self) -> int:
        """The exit status."""
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """End the process, the polite way first.  Raises AssertionError where that was not enough."""
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server outlived SIGTERM by {PATIENCE:g} s: {self.log()[-4000:]}") from None
        finally:
            self.process.stdout.close()
            self._log.close()

    # --- looking in -------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """One whole exchange: the status, and the JSON of the answer."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        if self.url.startswith("https:"):
            connection = http.client.HTTPSConnection(*self.address, timeout=PATIENCE, context=trusting())
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def get(self, path: str) -> Any:  # noqa: ANN401
        """The JSON at `path`."""
        status, answer = self.ask("GET", path)
        assert status == 200, answer
        return answer

    def slots(self) -> list[Json]:
        """As `GET /slots` shows them."""
        slots: list[Json] = self.get("/slots")["slots"]
        return slots

    def requests(self) -> dict[str, Json]:
        """The live requests by id, oldest first."""
        return {request["id"]: request for request in self.get("/v1/requests")["data"]}

    def states(self, request_id: str) -> list[str]:
        """The stages that a live request's generations are in; empty for one that has ended."""
        return [stage(state) for state in self.requests().get(request_id, {"states": []})["states"]]

    def receipts(self, request_id: str) -> list[Json]:
        """The receipts of one request, newest first."""
        return [
            receipt for receipt in self.get("/v1/receipts?limit=1024")["data"] if receipt["request_id"] == request_id
        ]

    def wait_state(self, request_id: str, state: str) -> None:
        """Wait until all generations of a live request are in `state`."""
        wait_for(lambda: set(self.states(request_id)) == {state}, f"{request_id} to be in {state}")

    def wait_committed(self, request_id: str, tokens: int) -> None:
        """Wait until so many tokens of a request's sequence are in its slot, or it has ended."""

        def is_there() -> bool:
            if request_id not in self.requests():
                return True
            return any(slot["request_id"] == request_id and slot["tokens"] >= tokens for slot in self.slots())

        wait_for(is_there, f"{tokens} tokens of {request_id}")

    def committed(self, request_id: str) -> int:
        """Return how many tokens of a request's sequence are in its slot; of several the most."""
        return max((slot["tokens"] for slot in self.slots() if slot["request_id"] == request_id), default=0)

    def wait_ended(self, request_id: str) -> list[Json]:
        """Wait until a request no longer lives; its receipts."""
        wait_for(lambda: request_id not in self.requests(), f"the end of {request_id}")
        return self.receipts(request_id)

    def wait_idle(self) -> None:
        """Wait until nothing lives and every slot is free."""
        wait_for(lambda: not self.requests(), "all requests to end")
        wait_for(lambda: all(slot["state"] == "idle" for slot in self.slots()), "all slots to be free")


def trusting(*protocols: str) -> ssl.SSLContext:
    """A client's side of TLS with whatever certificate, speaking one of `protocols`."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    return context
