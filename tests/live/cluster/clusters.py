"""`cede cluster` as a process, and its workers as servers to look into."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

from tests.live.server import CHAT, PATIENCE, Json, Server, command, environment, wait_for

WorkerT = TypeVar("WorkerT", bound=Server)

WORKER = re.compile(r"worker (?P<id>[0-9a-f]{16}) pid (?P<pid>\d+) at (?P<url>http://\S+)")
CONTROL = re.compile(r"control at (?P<url>http://\S+)")
DOOR = re.compile(r"cede cluster at (?P<url>http://\S+)")
MODEL = "cede-embedded"
LOOKS = 10  # at a choice, which is made by lot where nothing speaks for a worker
BEGUN_TOKENS = 3000  # of a stream that is hung up on
FLAGS = ("--port", "0", "--log-format", "text", "--dtype", "float32", "--slots", "2", "--chunk-tokens", "16")


class Worker(Server):
    """A worker of a cluster; what looks into a server looks into it."""

    def __init__(self, worker_id: str, pid: int, url: str) -> None:
        self.worker_id = worker_id
        self._pid = pid
        self._url = url
        self._is_killed = False

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal."""
        self._is_killed = number == signal.SIGKILL
        os.kill(self._pid, number)

    @property
    def lives(self) -> bool:
        """Return whether the process is there; one that was killed is not, even if it has not noticed yet."""
        if self._is_killed:
            return False
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True


class ControlAddress(Server):
    """Address where requests of all workers are seen and ended; what looks into a server looks into it."""

    def __init__(self, url: str) -> None:
        self._url = url


class FrontDoor(Generic[WorkerT]):
    """A front door, for its clients.  What is behind it, each kind has in its own way.

    Attributes:
        url: where it is.
    """

    url: str

    def living(self) -> Sequence[WorkerT]:
        """The workers that live."""
        raise NotImplementedError

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def known(self) -> set[str]:
        """The ids of the workers that the front door knows."""
        told = self._get("/health")  # without instances where it could not ask discovery
        return {f"{one['instance_id']:016x}" for one in told.get("instances", ()) if one["endpoint"] == "generate"}

    def has_model(self) -> bool:
        """Return whether it serves a model: a little after it knows the first worker that does."""
        return bool(self._get("/v1/models")["data"])

    def _get(self, path: str) -> Json:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            told: Json = json.load(connection.getresponse())
        return told

    def ask(self, body: Json, path: str = CHAT) -> tuple[int, Any]:
        """One whole exchange."""
        connection, response = self._send(body, path)
        with contextlib.closing(connection):
            return response.status, json.loads(response.read())

    def stream(self, body: Json) -> Stream:
        """A streaming chat that has begun."""
        return Stream(*self._send(body | {"stream": True}, CHAT))

    def _send(self, body: Json, path: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self.send(body, path)
        return connection, connection.getresponse()

    def send(self, body: Json, path: str = CHAT) -> http.client.HTTPConnection:
        """A request whose response nobody has looked at."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection

    def wait_chosen(self, body: Json, worker_id: str) -> None:
        """Wait until the router would send a request to a worker, whose KV it is told of a little later."""
        asked = body | {"nvext": {"annotations": ["query_instance_id:"]}}  # which is asked, and not run

        def choice() -> str:
            status, told = self.ask(asked)
            assert status == 200, told
            return f"{told['nvext']['worker_id']['decode_worker_id']:016x}"

        wait_for(lambda: {choice() for _ in range(LOOKS)} == {worker_id}, f"{worker_id} to be chosen")

    def serving(self) -> WorkerT:
        """The worker that has a request."""
        found: list[WorkerT] = []

        def is_found() -> bool:
            found.extend(worker for worker in self.living() if worker.requests())
            return bool(found)

        wait_for(is_found, "a worker to have the request")
        return found[0]

    def hang_up_in_prompt(self, prompt: str, *, committed: int = 0) -> tuple[str, Json]:
        """Hang up on prompts that begin differently until one is still being read: the prompt, and its receipt.

        Args:
            prompt: what they have in common.
            committed: tokens that are in the slot before.
        """
        for attempt in range(20):
            own = f"# {attempt}\n{prompt}"
            connection = self.send(chat(own, 500, stream=True))
            worker = self.serving()
            ids = list(worker.requests())
            for request_id in ids:
                worker.wait_committed(request_id, committed)
            connection.close()
            receipts = [receipt for one in ids for receipt in worker.wait_ended(one)]
            if [receipt["phase"] for receipt in receipts] == ["prefill"]:
                return own, receipts[0]
        raise AssertionError("no hang-up of twenty came while the prompt was read")


class Cluster(FrontDoor[Worker]):
    """A `cede cluster` process.  Workers that were started again take the place of those before them."""

    def __init__(self, *flags: str, workers: int = 2) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # closed by `end`
        self.process = subprocess.Popen(
            command("cluster", "--workers", str(workers), *FLAGS, *flags),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._count = workers
        self.workers: dict[str, Worker] = {}
        self.url = ""
        self.control = ControlAddress("")

    def __enter__(self) -> Self:
        """Return itself, once requests are accepted."""
        self.wait_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End it, the polite way first."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self._log.close()

    def log(self) -> str:
        """Return what was written to the standard error so far."""
        self._log.seek(0)
        return self._log.read()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self._lines.put(line)

    def read_lines(self) -> None:
        """Read what it has said since."""
        while not self._lines.empty():
            line = self._lines.get()
            if found := WORKER.match(line):
                self.workers[found["id"]] = Worker(found["id"], int(found["pid"]), found["url"])
            elif found := DOOR.match(line):
                self.url = found["url"]
            elif found := CONTROL.match(line):
                self.control = ControlAddress(found["url"])
            else:
                raise AssertionError(line)

    def living(self) -> list[Worker]:
        """Return the workers that live."""
        return [worker for worker in self.workers.values() if worker.lives]

    def wait_open(self) -> None:
        """Wait until it says where the front door is."""

        def is_open() -> bool:
            assert self.process.poll() is None, self.log()
            self.read_lines()
            return bool(self.url)

        wait_for(is_open, "the front door")

    def wait_whole(self) -> None:
        """Wait until all workers live, the front door knows them and no others, and nothing runs."""

        def is_whole() -> bool:
            self.read_lines()
            self.workers = {name: worker for name, worker in self.workers.items() if worker.lives}
            if len(self.workers) != self._count or self.known() != set(self.workers):
                return False
            try:
                for worker in self.workers.values():
                    worker.wait_idle()
            except OSError as error:  # it is about to end, and another will take its place
                print(f"a worker is gone: {error!r}: {self.log()[-8000:]}")  # pytest shows it where a test fails
                return False
            return True

        try:
            wait_for(is_whole, "the front door to know the workers")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.known()}, {set(self.workers)}: {self.log()[-4000:]}") from None


class Stream:
    """A chat that streams, read event by event.  Raises AssertionError, and hangs up, where it has not begun."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.status != 200:
            with contextlib.closing(connection):
                raise AssertionError(response.read())
        self._connection = connection
        self._response = response
        self.text = ""
        self.pieces = 0
        self.id = ""
        self.finish_reason: str | None = None
        self.error: Json | None = None
        self._events = self._read()

    def _read(self) -> Iterator[Json]:
        for line in self._response:
            if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                yield json.loads(line.removeprefix(b"data: "))

    def read(self, pieces: int | None = None) -> str:
        """Read on, to the end or until so many pieces of text have come in all; the text so far."""
        while pieces is None or self.pieces < pieces:
            event = next(self._events, None)
            if event is None:
                self.close()
                break
            if "error" in event:
                self.error = event["error"]
                continue
            self.id = event["id"].removeprefix("chatcmpl-")
            for choice in event["choices"]:
                self.text += choice["delta"].get("content") or ""
                self.pieces += bool(choice["delta"].get("content"))
                self.finish_reason = choice["finish_reason"] or self.finish_reason
        return self.text

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


def begun(door: str, worker: Worker, headers: Json | None = None, **cede: str) -> Stream:
    """A stream at that worker, which a front door is asked for; it says `cede` of its own fate."""
    annotations = [f"cede:{json.dumps(cede)}"] if cede else []
    nvext = {"backend_instance_id": int(worker.worker_id, 16), "annotations": annotations}
    connection = http.client.HTTPConnection(door.removeprefix("http://"), timeout=PATIENCE)
    with contextlib.ExitStack() as failed:
        failed.callback(connection.close)
        body = json.dumps(chat("def f", BEGUN_TOKENS, stream=True, nvext=nvext))
        connection.request("POST", CHAT, body, {"content-type": "application/json"} | (headers or {}))
        stream = Stream(connection, connection.getresponse())
        failed.callback(stream.close)
        stream.read(2)
        assert stream.id in worker.requests()
        failed.pop_all()
    return stream


@contextlib.contextmanager
def another_front_door(folder: Path) -> Iterator[str]:
    """One more front door of the cluster that is found in a folder: its URL."""
    process = subprocess.Popen(
        command("front-door", "--port", "0", "--discovery-dir", str(folder)),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            yield next(found["url"] for line in process.stdout if (found := DOOR.match(line)))
    finally:
        process.terminate()
        process.wait(PATIENCE)


def chat(content: str, max_tokens: int, **fields: Any) -> Json:  # noqa: ANN401
    """A greedy chat that does not end by itself."""
    messages = [{"role": "user", "content": content}]
    asked = {"model": MODEL, "messages": messages, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    return asked | fields
