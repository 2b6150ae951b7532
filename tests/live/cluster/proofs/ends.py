"""The end of a front door and of a worker, in each state that holds one up: both end by themselves, within a bound.

A state is brought about, then SIGTERM is sent, and the log says what was given up.  How long it took is shown.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from tests.live.cluster.clusters import CONTROL, Cluster, chat
from tests.live.cluster.etcd import etcd
from tests.live.cluster.parts import ForkedDoor, ForkedWorker, Parts
from tests.live.server import CHAT, PATIENCE, wait_for

GRACE = 2.0  # seconds, in the table
ENDLESS = chat("class Tree:", 3000)
LONG_PROMPT = chat("def read(path): " * 600, 3000)
CUT, UNTOLD = "and are cut off: POST", "could not be told"

State: TypeAlias = "Callable[[Parts, ExitStack], None]"


@dataclass(frozen=True, slots=True)
class End:
    """End of one process.

    Attributes:
        who: ended.
        state: it was in.
        status: of its exit.
        seconds: from SIGTERM.
        log: of what it said from SIGTERM on.
    """

    who: str
    state: str
    status: int
    seconds: float
    log: str

    def __str__(self) -> str:
        """A line of the table, and what was given up."""
        gave_up = [line.split("web    ")[-1] for line in self.log.splitlines() if " ERROR   web" in line]
        return f"| {self.who} | {self.state} | {self.status} | {self.seconds:.1f} | {'; '.join(gave_up)} |"


@dataclass(slots=True)
class Report:
    """All ends."""

    ends: list[End] = field(default_factory=list)

    def __str__(self) -> str:
        """As a table."""
        head = f"| who, with a grace of {GRACE:g} s | state | status | seconds | what the log says was given up |"
        return "\n".join([head, "|---|---|---|---|---|", *map(str, self.ends)])

    def check(self) -> None:
        """Raise AssertionError if one did not end in good order."""
        assert all(end.status == 0 for end in self.ends), self


def idle(parts: Parts, stack: ExitStack) -> None:
    """Nothing is asked."""


def half_a_header(parts: Parts, stack: ExitStack) -> None:
    """A client has sent half of the head of a request, and sends nothing more."""
    _sent(parts, stack, f"POST {CHAT} HTTP/1.1\r\nhost: local")


def half_a_body(parts: Parts, stack: ExitStack) -> None:
    """A client has sent half of a body, and sends nothing more."""
    _sent(parts, stack, f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{")


def a_stalled_reader(parts: Parts, stack: ExitStack) -> None:
    """A client reads nothing of a stream."""
    body = json.dumps(ENDLESS | {"stream": True})
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    _sent(parts, stack, f"{head}\r\n\r\n{body}")
    parts.serving()


def a_stream(parts: Parts, stack: ExitStack) -> None:
    """A client has read a part of a stream."""
    stream = parts.stream(ENDLESS)
    stack.callback(stream.close)
    stream.read(5)


def a_queued_request(parts: Parts, stack: ExitStack) -> None:
    """All slots are taken, and a request waits for one."""
    for _ in range(2 * len(parts.living()) + 1):
        stack.enter_context(closing(parts.send(ENDLESS)))
    wait_for(lambda: any("queued" in state for worker in parts.living() for state in _states(worker)), "a queue")


def a_prompt(parts: Parts, stack: ExitStack) -> None:
    """A long prompt is being read."""
    stack.enter_context(closing(parts.send(LONG_PROMPT)))
    wait_for(lambda: any("prefill" in state for worker in parts.living() for state in _states(worker)), "a prompt")


def a_control_reader(parts: Parts, stack: ExitStack) -> None:
    """Somebody follows what all workers do."""
    found = CONTROL.search(parts.door.said())
    assert found is not None
    host, port = found["url"].removeprefix("http://").rsplit(":", 1)
    reader = stack.enter_context(closing(socket.create_connection((host, int(port)))))
    reader.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert reader.recv(1)


def a_dead_door(parts: Parts, stack: ExitStack) -> None:
    """The front door was killed amid a stream."""
    a_stream(parts, stack)
    parts.door.signal(signal.SIGKILL)
    parts.door.wait_exit()


def a_frozen_door(parts: Parts, stack: ExitStack) -> None:
    """The front door stands still amid a stream."""
    a_stream(parts, stack)
    _freeze(parts.door, stack)


def a_frozen_peer(parts: Parts, stack: ExitStack) -> None:
    """Another worker stands still."""
    _freeze(parts.living()[0], stack)


DOOR_STATES: tuple[State, ...] = (
    *(idle, half_a_header, half_a_body, a_stalled_reader, a_stream, a_queued_request, a_control_reader, a_frozen_peer),
)
WORKER_STATES: tuple[State, ...] = (idle, a_prompt, a_stream, a_dead_door, a_frozen_door, a_frozen_peer)


def ended(who: ForkedDoor | ForkedWorker, state: str) -> End:
    """Send SIGTERM, and see it end."""
    before, began = len(who.log()), time.monotonic()
    who.signal(signal.SIGTERM)
    status = who.wait_exit()
    kind = "front door" if isinstance(who, ForkedDoor) else "worker"
    return End(kind, state, status, time.monotonic() - began, who.log()[before:])


@contextmanager
def running(
    folder: Path, grace: float, discovery: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> Iterator[Parts]:
    """A front door and two workers, which have so long at their ends."""
    flags = ("--grace", f"{grace:g}")
    with Parts(folder, *flags, door=flags, discovery=discovery, environment=environment) as parts:
        yield parts


def end_door(parts: Parts, state: State) -> End:
    """Bring a front door into a state, and end it; another opens in its place."""
    with ExitStack() as stack:
        state(parts, stack)
        end = ended(parts.door, state.__name__)
    parts.open_door()
    parts.wait_whole()
    return end


def end_worker(parts: Parts, state: State) -> End:
    """Bring a worker into a state, and end it; another starts in its place, and a front door where that is gone."""
    with ExitStack() as stack:
        state(parts, stack)
        end = ended(parts.living()[-1] if state is a_frozen_peer else _busiest(parts), state.__name__)
    if state is a_dead_door:
        parts.open_door()
    parts.start_worker()
    parts.wait_whole()
    return end


def end_without_discovery(who: str, grace: float) -> End:
    """End a front door or a worker while etcd answers nobody."""
    with TemporaryDirectory() as name, etcd(Path(name)) as store:
        with running(Path(name), grace, ("--discovery", "etcd"), store.environment) as parts, store.frozen():
            return ended(parts.door if who == "front door" else parts.living()[0], "a_frozen_discovery")


def end_cluster(state: str) -> End:
    """End a `cede cluster` amid a stream, or while one of its workers stands still."""
    with ExitStack() as stack, Cluster("--grace", f"{GRACE:g}") as cluster:
        cluster.wait_whole()
        if state == "a_frozen_worker":
            cluster.living()[0].kill(signal.SIGSTOP)
        else:
            stream = cluster.stream(ENDLESS)
            stack.callback(stream.close)
            stream.read(5)
        before, began = len(cluster.log()), time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        status = cluster.process.wait(PATIENCE)
        return End("cede cluster", state, status, time.monotonic() - began, cluster.log()[before:])


def walk() -> Report:
    """All states, one after the other."""
    report = Report()
    with TemporaryDirectory() as name, running(Path(name), GRACE) as parts:
        for state in DOOR_STATES:
            report.ends.append(end_door(parts, state))
        for state in WORKER_STATES:
            report.ends.append(end_worker(parts, state))
    report.ends += [end_without_discovery(who, GRACE) for who in ("front door", "worker")]
    report.ends += [end_cluster(state) for state in ("a_stream", "a_frozen_worker")]
    return report


def _sent(parts: Parts, stack: ExitStack, text: str) -> None:
    stack.enter_context(closing(socket.create_connection(parts.address))).sendall(text.encode())


def _states(worker: ForkedWorker) -> list[str]:
    return [state for request in worker.requests().values() for state in request["states"]]


def _busiest(parts: Parts) -> ForkedWorker:
    return max(parts.living(), key=lambda worker: len(worker.requests()))


def _freeze(who: ForkedDoor | ForkedWorker, stack: ExitStack) -> None:
    who.signal(signal.SIGSTOP)
    stack.callback(who.signal, signal.SIGCONT)
