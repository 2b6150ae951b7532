"""Clients that hang up at the front door, at any moment, and in a storm; beside others that notice nothing."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts
from tests.live.cluster.proofs.asking import Answer, asked
from tests.live.cluster.proofs.evidence import Clock, Spread, endings, leaks, receipts_of
from tests.live.cluster.proofs.load import Kind, Load, Outcome, streamed
from tests.live.cluster.proofs.standstill import close_held
from tests.live.server import Json, stage
from tests.soak.clients import Address
from tests.soak.record import describe_loop

ROUND = 400  # closes, after which the receipts are read: a worker remembers so many
SLOTS = 4
FLAGS = ("--slots", str(SLOTS), "--queue", "512", "--log-format", "json", "--watch-loop", "50")
NEIGHBOURS = (
    Kind("greedy neighbour", streamed(chat("class Tree:", 300))),
    Kind("seeded neighbour", streamed(chat("import os", 300, temperature=1.0, seed=7))),
    Kind("neighbour's whole answer", chat("def read(path):", 200)),
)
WORDS = ("def", "return", "for name in names:", "import os", "x = 1", "class Tree:", "self.left", "raise ValueError(x)")
ENDLESS = 3000  # tokens
LAYERS = 1  # that may end after a cancel was noticed
MANY = 500  # closes, among which there are some in every phase
PHASES = {"queued", "prefill", "draft", "decode"}  # a step that verifies is met by few


@dataclass(frozen=True, slots=True)
class Victim:
    """Client that will hang up.

    Attributes:
        body: what it asks.
        delay: seconds after which it hangs up, if it does not wait for text.
        pieces: of text, after which it hangs up; None for one that does not wait for any.
        rudely: whether by a reset.
    """

    body: Json
    delay: float
    pieces: int | None
    rudely: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """A victim that has hung up, at a time on this process's clock."""

    answer: Answer
    at: float
    streams: bool


@dataclass(slots=True)
class Report:
    """Result of the closes."""

    closed: int = 0
    unseen: int = 0
    phases: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    layers: Counter[int] = field(default_factory=Counter)
    noticed: list[float] = field(default_factory=list)
    to_kernel: list[float] = field(default_factory=list)
    to_free: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    seconds: float = 0.0
    clock_set: float = 0.0
    neighbours: Outcome = field(default_factory=Outcome)

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join(
            [
                f"{self.closed} closes in {self.seconds:.1f} s; {self.unseen} of them before a worker had the request",
                *(f"{number:7} in {', '.join(what)}" for what, number in sorted(self.phases.items())),
                f"layers after the cancel: {dict(sorted(self.layers.items()))}",
                f"close to noticed:      {Spread.of(self.noticed)}",
                f"close to last kernel:  {Spread.of(self.to_kernel)}",
                f"close to slot freed:   {Spread.of(self.to_free)}",
                f"the time of day was set by {1e3 * self.clock_set:.2f} ms meanwhile",
                *self.loops,
                *self.neighbours.lines(),
                *self.faults[:20],
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert not self.faults, self
        assert not self.neighbours.faults, self
        assert self.neighbours.exact, self
        assert max(self.layers, default=0) <= LAYERS, self
        if self.closed >= MANY:
            assert {phase for phase, *_ in self.phases} >= PHASES, self


def draw(rng: random.Random, *, quick: bool = False) -> Victim:
    """Draw one that hangs up somewhere: while it waits, while its prompt is read, while text comes.

    Args:
        rng: decides.
        quick: whether it hangs up within 200 ms, so that many can do so in a second.
    """
    words = rng.choice((4, 30, 300)) if quick else rng.choice((4, 60, 900))
    body = chat(" ".join(rng.choices(WORDS, k=words)), ENDLESS, seed=rng.randrange(1000))
    if rng.random() < 0.7:
        body = streamed(body)
    waits = "stream" in body and not quick and rng.random() < 0.5
    delay = rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.2 if quick else 1.5)))
    return Victim(body, delay, rng.randrange(1, 60) if waits else None, rng.random() < 0.3)


async def hang_up(address: Address, victim: Victim, closed: list[Closed]) -> None:
    """Ask, and hang up."""
    async with asked(address, victim.body) as asking:
        with trio.move_on_after(math.inf if victim.pieces is not None else victim.delay):
            await asking.read(victim.pieces)
        at = await asking.hang_up(rudely=victim.rudely)
    closed.append(Closed(asking.answer, at, "stream" in victim.body))


async def close_many(parts: Parts, closes: int, *, seed: int, clients: int = 12) -> Report:
    """Let so many clients hang up one after the other, until there were so many closes."""
    rng = random.Random(seed)

    async def some(count: int, closed: list[Closed]) -> None:
        victims = (draw(rng) for _ in range(count))

        async def one_by_one() -> None:
            for victim in victims:
                await hang_up(parts.address, victim, closed)

        async with trio.open_nursery() as nursery:
            for _ in range(clients):
                nursery.start_soon(one_by_one)

    return await in_rounds(parts, closes, some)


async def storm(parts: Parts, closes: int, *, seed: int, rate: float) -> Report:
    """Let clients come at `rate` a second, each of whom hangs up soon."""
    rng = random.Random(seed)

    async def some(count: int, closed: list[Closed]) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(hang_up, parts.address, draw(rng, quick=True), closed)
                await trio.sleep_until(began + (number + 1) / rate)

    return await in_rounds(parts, closes, some)


async def in_rounds(parts: Parts, closes: int, some: Callable[[int, list[Closed]], Awaitable[None]]) -> Report:
    """Let `some` close beside neighbours, and look at the receipts now and then; and others while no step ends."""
    load = await Load.of(parts.address, NEIGHBOURS)
    report, clock, began = Report(neighbours=load.outcome), Clock(), time.perf_counter()
    for done in range(0, closes, ROUND):
        closed: list[Closed] = []
        async with load.running(len(NEIGHBOURS)):
            await some(min(ROUND, closes - done), closed)
        report.faults += await trio.to_thread.run_sync(leaks, parts.workers)
        report.seconds = time.perf_counter() - began
        receipts = await trio.to_thread.run_sync(receipts_of, parts.workers)
        ended = await trio.to_thread.run_sync(endings, parts.folder)
        judge(report, closed, receipts, ended, clock)
    report.clock_set = clock.set_since()
    report.faults += await close_held(parts, SLOTS)
    for worker in parts.workers:
        told = await trio.to_thread.run_sync(worker.get, "/v1/statistics")
        report.loops.append(describe_loop(told["loop"]))
    return report


def judge(
    report: Report,
    closed: Sequence[Closed],
    receipts: Mapping[str, list[Json]],
    ended: Mapping[str, list[Json]],
    clock: Clock,
) -> None:
    """Add to the report what the workers show of those who have hung up."""
    for each in closed:
        report.closed += 1
        found = receipts.get(each.answer.id, [])
        if each.answer.error is not None:
            report.faults.append(f"{each.answer.id} was told {each.answer.error}")
        elif not found and each.answer.id not in ended:
            report.unseen += 1
        elif [receipt["reason"] for receipt in found] != ["client_disconnect"]:
            report.faults.append(f"{each.answer.id} has receipts {found} and ended as {ended.get(each.answer.id)}")
        else:
            count(report, each, found[0], clock.wall(each.at))


def count(report: Report, closed: Closed, receipt: Json, at: float) -> None:
    """Add a close with its receipt; `at` is by the receipt's clock."""
    got = "amid the stream" if closed.answer.arrivals else "before any text"
    phase = receipt["phase"] if receipt["phase"] in ("draft", "verify") else stage(receipt["phase"])
    report.phases[phase, "streaming" if closed.streams else "not streaming", got] += 1
    report.layers[receipt["layers_after_cancel"]] += 1
    report.noticed.append(receipt["detected_at"] - at)
    if receipt["last_kernel_at"] is not None:
        report.to_kernel.append(max(0.0, receipt["last_kernel_at"] - at))
    if receipt["slot_freed_at"] is not None:
        report.to_free.append(receipt["slot_freed_at"] - at)
