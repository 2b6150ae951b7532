"""Processes that do nothing but send, and what is counted of it.

A front door is told of each worker's keys; a worker follows the others twice, to see whether it is there itself, and to
ask its peers.  All who follow discovery are told of all who come and go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.sim.cluster.discovery import Added, Beat, Change, Discovery, Removed
from tests.sim.cluster.growth.bulk import BulkNetwork
from tests.sim.cluster.network import Connection, Process
from tests.sim.scheduler import run
from web.cluster.settings import LEASE_SECONDS

DELAY = (0.0001, 0.001)  # seconds of a link
RENEWALS = 3  # of a lease while it lasts


@dataclass(frozen=True, slots=True)
class Load:
    """Load of each worker, in a second.

    Attributes:
        requests: that come.
        prompt, output: tokens of each.
        successors: of the requests, the share that takes the place of another.
    """

    requests: float = 1.0
    prompt: int = 1200
    output: int = 200
    successors: float = 0.1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes, as counted between real processes: docs/understand/performance.md.

    Attributes:
        instance: what discovery has of one endpoint of a worker.
        keys: what it has of a worker in all.
        ask, ask_token: a request, without its prompt and for each token of that.
        piece: a token of an answer, to the front door.
        block: what a front door is told of a block of KV.
        question: one of the control address, to a worker.
        successor: what a worker is told of a request that takes another's place.
    """

    instance: int = 250
    keys: int = 3770
    ask: int = 1210
    ask_token: float = 2.25
    piece: int = 63
    block: int = 330
    question: int = 590
    successor: int = 650


@dataclass(slots=True)
class Counted:
    """Counts of what was sent.

    Attributes:
        messages, size: how many, and their bytes, by what they were for; of a list the questions alone.
        most: the most messages that one process had, in or out, by what they were for.
        seconds: until all who were to know knew, by what it was.
    """

    messages: Counter[str] = field(default_factory=Counter)
    size: Counter[str] = field(default_factory=Counter)
    most: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Worker:
    """One that can be found."""

    process: Process


class Cluster:
    """Front doors, workers and discovery.

    Args:
        nursery: of all.
        workers, doors: how many.
        load: of each worker.
        sizes: of messages.
    """

    def __init__(self, nursery: trio.Nursery, workers: int, doors: int, load: Load, sizes: Sizes) -> None:
        self.counted = Counted()
        self._nursery = nursery
        self._members: dict[Worker, Connection] = {}
        self._network = BulkNetwork(nursery, 1, DELAY)
        self._discovery = Discovery(self._network, nursery, LEASE_SECONDS)
        self._workers = [Worker(Process(f"worker-{number}", f"worker-{number}")) for number in range(workers)]
        self._doors = [Process(f"door-{number}", f"door-{number}") for number in range(doors)]
        self._load = load
        self._sizes = sizes
        self._now = ""
        self._each: Counter[str] = Counter()

    async def count(self) -> None:
        """Let it start, serve for a second, lose a worker, and be looked at."""
        await self._during("start", self._start, 1.0)
        await self._during("requests, a second", self._serve, 1.0)
        await self._during("one list of all requests", self._list, 1.0)
        await self._during("a worker's death", self._die, LEASE_SECONDS + 1.0)

    async def _during(self, what: str, act: Callable[[], None], seconds: float) -> None:
        self._now, self._each = what, Counter()
        began = trio.current_time()
        act()
        await trio.sleep(seconds)
        self.counted.most[what] = max(self._each.values(), default=0)
        last = self.counted.seconds.setdefault(what, began)
        self.counted.seconds[what] = last - began

    def _note(self, source: str, target: str, size: float, what: str | None = None) -> None:
        """Count a message."""
        name = what or self._now
        self.counted.messages[name] += 1
        self.counted.size[name] += round(size)
        self._each[source] += 1
        self._each[target] += 1
        self.counted.seconds[self._now] = trio.current_time()

    def _send(self, source: Process, target: Process, size: float, what: str) -> None:
        at = self._network.arrival(source.node, target.node, trio.current_time())
        self._network.deliver_at(at, lambda: self._note(source.name, target.name, size, what))

    # --- what happens -------------------------------------------------------------------------------------------------

    def _follow(self, process: Process, size: int) -> None:
        def hear(news: object) -> None:
            if isinstance(news, Added | Removed):
                self._note("discovery", process.name, size)

        self._discovery.attach(process, hear).tell_far("watch")

    def _start(self) -> None:
        for door in self._doors:
            self._follow(door, self._sizes.keys)
        for worker in self._workers:
            node = worker.process.node
            for what in ("itself", "its peers"):
                self._follow(Process(f"{node}, {what}", node), self._sizes.instance)
            change = Change(worker, comes=True, done=lambda: None)
            member = self._members[worker] = self._discovery.attach(worker.process, lambda _: None)
            member.tell_far(change)
        self._nursery.start_soon(self._renew)

    async def _renew(self) -> None:
        """Renew the leases of all who live, again and again."""
        while True:
            await trio.sleep(LEASE_SECONDS / RENEWALS)
            for worker, member in self._members.items():
                member.tell_far(Beat(worker, wants_in=True))

    def _serve(self) -> None:
        """Requests of a second; front doors take them in turn."""
        load, sizes = self._load, self._sizes
        asked = 0
        for worker in self._workers:
            for _ in range(round(load.requests)):
                door = self._doors[asked % len(self._doors)]
                asked += 1
                self._send(door, worker.process, sizes.ask + sizes.ask_token * load.prompt, "requests asked")
                for _ in range(load.output):
                    self._send(worker.process, door, sizes.piece, "tokens answered")
                for told in self._doors:
                    for _ in range((load.prompt + load.output) // BLOCK_TOKENS):
                        self._send(worker.process, told, sizes.block, "blocks told of")
        for number in range(round(load.successors * asked)):
            source = self._workers[number % len(self._workers)].process
            for other in self._workers:
                if other.process is not source:
                    self._send(source, other.process, sizes.successor, "successors told of")

    def _list(self) -> None:
        for worker in self._workers:
            self._send(self._doors[0], worker.process, self._sizes.question, self._now)

    def _die(self) -> None:
        worker = next(iter(self._members))
        del self._members[worker]
        worker.process.die(answers=False)


def grow(workers: int, doors: int, load: Load | None = None, sizes: Sizes | None = None) -> Counted:
    """Count what is sent in a cluster of so many."""

    async def main() -> Counted:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(nursery, workers, doors, load or Load(), sizes or Sizes())
            await cluster.count()
            nursery.cancel_scope.cancel()
        return cluster.counted

    return run(main, seed=1)
