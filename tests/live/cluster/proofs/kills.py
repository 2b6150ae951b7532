"""Workers that are killed at random moments, under load."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from tests.live.cluster.parts import ForkedWorker, Parts
from tests.live.cluster.proofs.evidence import Spread, endings, leaks
from tests.live.cluster.proofs.load import Load, Outcome, kinds
from tests.live.server import Json, wait_for

FLAGS = ("--slots", "12", "--log-format", "json")  # none waits for a slot, wherever all of them go
TOKENS = 400
LONGEST_WAIT = 2.0  # seconds between two kills, once the cluster is whole again


@dataclass(frozen=True, slots=True)
class Kill:
    """A worker that was killed, at a time on this process's clock, and the requests that it had shortly before."""

    at: float
    requests: frozenset[str]


@dataclass(slots=True)
class Report:
    """Result of the kills.

    Attributes:
        kills: all of them.
        pauses: seconds from a kill until more came of each stream that was hit.
        beyond: the same, less what the next worker took to read the prompt and what had come.
        faults: what must not be, beside those of the outcome.
    """

    kills: list[Kill] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    beyond: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    outcome: Outcome = field(default_factory=Outcome)

    def __str__(self) -> str:
        """Say it in a few lines."""
        hit = sum(len(kill.requests) for kill in self.kills)
        return "\n".join(
            [
                f"{len(self.kills)} kills in {self.seconds:.0f} s, of workers that had {hit} requests",
                f"pause of a stream:          {Spread.of(self.pauses)}",
                f"beyond the prompt's reading: {Spread.of(self.beyond)}",
                *self.outcome.lines(),
                *self.faults[:20],
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert not self.faults, self
        assert not self.outcome.faults, self
        assert self.outcome.exact, self


async def kill_many(parts: Parts, kills: int, *, seed: int, clients: int = 6) -> Report:
    """Kill one worker after the other, each of which is replaced at once."""
    rng = random.Random(seed)
    load = await Load.of(parts.address, kinds(TOKENS))
    report, began = Report(outcome=load.outcome), time.perf_counter()
    async with load.running(clients):
        while len(report.kills) < kills:
            await trio.sleep(rng.uniform(0, LONGEST_WAIT))
            report.kills.append(await trio.to_thread.run_sync(kill_one, parts, rng))
    report.seconds = time.perf_counter() - began
    report.faults += await trio.to_thread.run_sync(leaks, parts.living())
    judge(report, await trio.to_thread.run_sync(endings, parts.folder))
    return report


def kill_one(parts: Parts, rng: random.Random) -> Kill:
    """Kill any worker, start another, and return once the front door knows that."""
    worker = rng.choice(parts.living())
    requests = frozenset(worker.requests())
    at = time.perf_counter()
    worker.kill()
    fresh = parts.start_worker()
    wait_known(parts, fresh)
    return Kill(at, requests)


def wait_known(parts: Parts, worker: ForkedWorker) -> None:
    """Wait until the front door knows a worker."""
    wait_for(lambda: worker.worker_id in parts.known(), "the front door to know the worker")


def judge(report: Report, ended: Mapping[str, Sequence[Json]]) -> None:
    """Add how long streams paused, and find those that were told to be sent again without having been hit."""
    for kind, answer in report.outcome.refused:
        if answer.id in ended:  # a worker that was killed says nothing any more
            report.faults.append(f"{kind.name} {answer.id} failed beside the kills: {ended[answer.id]}, {answer.error}")
    for kind, answer in report.outcome.answers:
        hits = [kill.at for kill in report.kills if answer.id in kill.requests]
        if not kind.moves or answer.error is not None or not kind.body.get("stream") or not hits:
            continue
        later = [at for at in answer.arrivals if at > hits[-1]]
        if not later:
            continue  # all had come
        report.pauses.append(later[0] - hits[-1])
        for told in ended.get(answer.id, ())[-1:]:
            report.beyond.append(report.pauses[-1] - told["queued_seconds"] - told["prefill_seconds"])
