"""Traffic between the processes of a cluster, and what a token costs the front door.

The figures are in docs/understand/performance.md.

Bytes are the kernel's counts of each connection (`ss`, of iproute2); those of connections that were closed meanwhile
are not among them.  Devices are held while it counts, so that nothing is on its way.
"""

from __future__ import annotations

import re
import subprocess
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import ForkedWorker, Parts
from tests.live.server import wait_for

LONG = "x = 1\n" * 300  # 1200 tokens
FLAGS = ("--slots", "4")
LOOKS = 20


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes so far: from the front door to workers, from workers to it, among workers, and to its clients."""

    to_workers: int = 0
    to_door: int = 0
    among_workers: int = 0
    to_clients: int = 0

    def since(self, before: Sent) -> Sent:
        """Return what has been sent since."""
        return Sent(
            self.to_workers - before.to_workers,
            self.to_door - before.to_door,
            self.among_workers - before.among_workers,
            self.to_clients - before.to_clients,
        )


def sent(parts: Parts) -> Sent:
    """On the connections that there are."""
    told = subprocess.run(["ss", "-tinpH", "state", "established"], capture_output=True, text=True, check=True).stdout
    lines = told.splitlines()
    kinds = {worker.pid: "worker" for worker in parts.living()} | {parts.door.pid: "door"}
    ends: dict[str, str] = {}
    found: list[tuple[str, str, int]] = []
    for head, more in zip(lines[::2], lines[1::2], strict=True):
        _, _, here, there, *_ = head.split()
        pid, count = re.search(r"pid=(\d+)", head), re.search(r"bytes_sent:(\d+)", more)
        if pid is not None and int(pid[1]) in kinds:
            ends[here] = kinds[int(pid[1])]
            found.append((here, there, int(count[1]) if count else 0))
    names = {
        ("door", "worker"): "to_workers",
        ("worker", "door"): "to_door",
        ("worker", "worker"): "among_workers",
        ("door", ""): "to_clients",
    }
    total = Sent()
    for here, there, size in found:
        name = names.get((ends[here], ends.get(there, "")))
        if name is not None:
            total = replace(total, **{name: getattr(total, name) + size})
    return total


def settled(parts: Parts) -> Sent:
    """The same, once it has been the same for many looks."""
    seen = [sent(parts)]

    def stands() -> bool:
        seen.append(sent(parts))
        return len(seen) > LOOKS and len(set(seen[-LOOKS:])) == 1

    wait_for(stands, "nothing more to pass")
    return seen[-1]


def count(parts: Parts) -> list[str]:
    """Count for a cluster of which nothing else is asked; returns lines."""
    worker = parts.living()[0]
    keys = [path.stat().st_size for path in (parts.folder / "discovery").rglob("*") if path.is_file()]
    lines = [f"discovery: {len(keys)} keys, {sum(keys)} bytes, of {len(parts.living())} workers and a front door"]
    lines += _count_requests(parts, worker)
    lines += _count_tokens(parts, worker)
    before = settled(parts)
    with urllib.request.urlopen(f"{_control(parts.folder)}/v1/requests") as answer:
        answer.read()
    lines.append(f"a list at the control address: {settled(parts).since(before)}")
    annotation = 'cede:{"supersede": "one"}'
    before = settled(parts)
    parts.ask(_at(worker, "def f", 1, annotation))
    lines.append(f"a request that supersedes: {settled(parts).since(before)}")
    return lines


def _count_requests(parts: Parts, worker: ForkedWorker) -> list[str]:
    lines = []
    for text in ("# first", "def f", LONG):  # the first opens connections
        before = settled(parts)
        _, answer = parts.ask(_at(worker, text, 1))
        tokens = answer["usage"]["prompt_tokens"]
        lines.append(f"a request of {tokens} tokens, {tokens // 64} blocks: {settled(parts).since(before)}")
    return lines[1:]


def _count_tokens(parts: Parts, worker: ForkedWorker) -> list[str]:
    stream = parts.stream(_at(worker, "import os", 3000))
    door = psutil.Process(parts.door.pid)
    looks = []
    for pieces in (20, 900):
        stream.read(pieces)
        with worker.held():
            now = settled(parts)
            times = door.cpu_times()
            looks.append((now, max(slot["tokens"] for slot in worker.slots()), times.user + times.system))
    stream.close()
    worker.wait_idle()
    (one, tokens, seconds), (other, more, later) = looks
    each = 1000 * (later - seconds) / (more - tokens)
    return [
        f"{more - tokens} tokens of an answer, with their blocks: {other.since(one)}",
        f"the front door computes for {each:.3f} ms per token of one stream",
    ]


def _at(worker: ForkedWorker, text: str, tokens: int, *annotations: str) -> dict[str, object]:
    nvext = {"backend_instance_id": int(worker.worker_id, 16), "annotations": list(annotations)}
    return chat(text, tokens, nvext=nvext)


def _control(folder: Path) -> str:
    told = "".join(path.read_text(encoding="utf-8") for path in folder.glob("server-*.out"))
    found = re.search(r"control at (http://\S+)", told)
    assert found is not None, told
    return found[1]
