"""Hang-ups for a long time, on several clusters at once: no request outlives its client, and SIGTERM ends them all.

The clusters are real command lines.  While clients come and go, the workers are asked again and again for what they
have: a request whose client has left is let go within `PATIENCE` seconds, however busy the machine is.
"""

from __future__ import annotations

import math
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import trio

from tests.live.cluster.clusters import Cluster, chat
from tests.live.cluster.proofs.asking import asked
from tests.live.cluster.proofs.evidence import Spread

GRACE = 2.0
FLAGS = ("--queue", "64", "--grace", f"{GRACE:g}", "--log-level", "info")
ENDLESS = 3000  # tokens
LOOK_EVERY, TELL_EVERY = 2.0, 60.0  # seconds
PATIENCE = 20.0  # seconds in which a request has to end when its client has gone
WRONG = ("is started again", " ERROR ", "in vain", "Exception ignored", "Traceback")
OF_DYNAMO = " dynamo_"  # who says as an error that an answer could not be sent
WORDS = ("def", "return", "for name in names:", "import os", "x = 1", "class Tree:", "self.left", "raise ValueError(x)")


@dataclass(slots=True)
class Report:
    """Result of the hang-ups.

    Attributes:
        closed: by the moment of the hang-up.
        errors: that clients were told before they hung up.
        outlived: requests that were seen alive for too long after their client had gone.
        seen_after: how long after a client had gone a worker was last seen to have its request, where one was.
        ends: of each cluster, its status and the seconds from SIGTERM to its end.
        complaints: lines of the logs that say that something was not as it should be.
    """

    closed: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    outlived: set[str] = field(default_factory=set)
    seen_after: dict[str, float] = field(default_factory=dict)
    looks: int = 0
    seconds: float = 0.0
    ends: list[tuple[int, float]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join(
            [
                f"{self.closed.total()} hang-ups in {self.seconds:.0f} s: {dict(self.closed)}; {self.looks} looks",
                f"errors that clients were told: {dict(self.errors)}",
                f"seen alive after the hang-up: {Spread.of(list(self.seen_after.values()))}",
                f"requests that outlived their clients by {PATIENCE:g} s: {sorted(self.outlived) or 'none'}",
                *(f"status {status}, {seconds:.1f} s after SIGTERM" for status, seconds in self.ends),
                *self.complaints,
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert not self.outlived, self
        assert not self.complaints, self
        assert all(status == 0 for status, _ in self.ends), self


class Watch:
    """Watch over what the workers of one cluster have, beside what its clients still want.

    Args:
        cluster: running.
        report: is told what outlives its client.
    """

    def __init__(self, cluster: Cluster, report: Report) -> None:
        self._cluster = cluster
        self._report = report
        self._left: dict[str, float] = {}

    def hung_up(self, request_id: str) -> None:
        """A client has gone."""
        self._left[request_id] = time.monotonic()

    async def look(self) -> int:
        """Look once; how many requests without a client there are."""
        alive = set[str]()
        for worker in self._cluster.living():
            alive |= set(await trio.to_thread.run_sync(worker.requests))
        now = time.monotonic()
        orphans = alive & self._left.keys()
        for request_id in orphans:
            since = self._report.seen_after[request_id] = now - self._left[request_id]
            if since > PATIENCE:
                self._report.outlived.add(request_id)
        self._left = {name: at for name, at in self._left.items() if name in orphans or now - at < 2 * LOOK_EVERY}
        self._report.looks += 1
        return len(orphans)

    async def look_on(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await trio.sleep(LOOK_EVERY)

    async def look_to_the_end(self) -> None:
        """Look until no request without a client is left, or one has outlived its client."""
        for _ in range(round(2 * PATIENCE / LOOK_EVERY)):
            if not await self.look():
                return
            await trio.sleep(LOOK_EVERY)


async def _hang_up(cluster: Cluster, watch: Watch, report: Report, rng: random.Random) -> None:
    """Ask, and hang up at a moment that is drawn."""
    body = chat(" ".join(rng.choices(WORDS, k=rng.choice((2, 10, 60)))), ENDLESS, stream=True)
    moment = rng.choice(("at once", "before text", "at the first text", "amid text"))
    delay, pieces = {
        "at once": (0.0, None),
        "before text": (rng.uniform(0, 0.05), None),
        "at the first text": (math.inf, 1),
        "amid text": (math.inf, rng.randrange(2, 20)),
    }[moment]
    async with asked(cluster.address, body) as asking:
        with trio.move_on_after(delay):
            await asking.read(pieces)
        await asking.hang_up(rudely=rng.random() < 0.3)
    watch.hung_up(asking.answer.id)
    report.closed[moment] += 1
    if asking.answer.error is not None:
        report.errors[str(asking.answer.error.get("message"))[:100]] += 1


async def _one_after_the_other(
    cluster: Cluster, watch: Watch, report: Report, rng: random.Random, every: float
) -> None:
    while True:
        at = trio.current_time()
        await _hang_up(cluster, watch, report, rng)
        await trio.sleep_until(at + rng.uniform(0, 2 * every))


async def _tell(report: Report) -> None:
    while True:
        await trio.sleep(TELL_EVERY)
        print(f"{report.closed.total()} hang-ups, outlived: {len(report.outlived)}", flush=True)


async def hang_up_for(clusters: Sequence[Cluster], seconds: float, *, seed: int, clients: int, rate: float) -> Report:
    """Let clients hang up on all clusters for so long.

    Args:
        clusters: running.
        seconds: for which clients come.
        seed: of what is drawn.
        clients: of each cluster, at a time.
        rate: hang-ups a second at most, of all.
    """
    report, rng, began = Report(), random.Random(seed), time.monotonic()
    watches = [Watch(cluster, report) for cluster in clusters]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell, report)
        for cluster, watch in zip(clusters, watches, strict=True):
            nursery.start_soon(watch.look_on)
            for _ in range(clients):
                every = clients * len(clusters) / rate
                own = random.Random(rng.random())
                nursery.start_soon(_one_after_the_other, cluster, watch, report, own, every)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    report.seconds = time.monotonic() - began
    async with trio.open_nursery() as nursery:
        for watch in watches:
            nursery.start_soon(watch.look_to_the_end)
    return report


def run(workers: int, clusters: int, minutes: float, seed: int, clients: int, rate: float) -> Report:
    """Start clusters, let clients hang up, and end all by SIGTERM."""
    with ExitStack() as stack:
        running = [stack.enter_context(Cluster(*FLAGS, workers=workers)) for _ in range(clusters)]
        for cluster in running:
            cluster.wait_whole()
        report = trio.run(partial(hang_up_for, running, 60 * minutes, seed=seed, clients=clients, rate=rate))
        print(report, flush=True)  # what follows may take its time where something is wrong
        began = time.monotonic()
        for cluster in running:
            cluster.process.send_signal(signal.SIGTERM)
        for cluster in running:
            report.ends.append((cluster.process.wait(600), time.monotonic() - began))
            log = cluster.log().splitlines()
            said = (line for line in log if any(word in line for word in WRONG))
            report.complaints += [line for line in said if OF_DYNAMO not in line]
    return report
