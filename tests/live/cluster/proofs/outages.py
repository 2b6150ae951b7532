"""Load that goes on while workers are rolled or frozen, a front door is killed, or discovery is away."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import trio

from tests.live.cluster.parts import Parts
from tests.live.cluster.proofs.evidence import Clock, Spread, leaks, receipts_of
from tests.live.cluster.proofs.kills import TOKENS, wait_known
from tests.live.cluster.proofs.load import Load, Outcome, kinds
from tests.live.server import wait_for

FLAGS = ("--slots", "4", "--log-format", "json")


@dataclass(slots=True)
class Report:
    """Result of an outage.

    Attributes:
        what: happened.
        is_seamless: whether nobody at all may have had an error.
        times: seconds, by what they are of.
    """

    what: str
    is_seamless: bool = False
    times: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def __str__(self) -> str:
        """Say it in a few lines."""
        times = [f"{name}: {Spread.of(seconds)}" for name, seconds in self.times.items()]
        return "\n".join([self.what, *times, *self.outcome.lines(), *self.faults[:20]])

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert not self.faults, self
        assert not self.outcome.faults, self
        assert self.outcome.exact, self
        assert not (self.is_seamless and self.outcome.refused), self


async def under_load(parts: Parts, report: Report, happens: Callable[[], None], *, clients: int) -> Report:
    """Let something happen in a thread while clients ask, and look at what is left behind it."""
    load = await Load.of(parts.address, kinds(TOKENS))
    report.outcome = load.outcome
    async with load.running(clients):
        await trio.to_thread.run_sync(happens)
    report.faults += await trio.to_thread.run_sync(leaks, parts.living())
    return report


async def roll(parts: Parts, *, clients: int = 6) -> Report:
    """Replace each worker, one after the other, by SIGTERM and a new one."""

    def roll_all() -> None:
        for worker in parts.living():
            worker.signal(signal.SIGTERM)
            if status := worker.wait_exit():
                report.faults.append(f"a worker that was told to stop ended with status {status}")
            wait_known(parts, parts.start_worker())

    report = Report(f"a rolling restart of {len(parts.workers)} workers", is_seamless=True)
    return await under_load(parts, report, roll_all, clients=clients)


async def freeze(parts: Parts, *, clients: int = 6) -> Report:
    """Freeze a worker until it has left discovery and its requests have gone elsewhere; then let it go on."""

    def freeze_one() -> None:
        worker = parts.serving()
        others = [other for other in parts.living() if other is not worker]
        had = set(worker.requests())
        began = time.perf_counter()
        worker.signal(signal.SIGSTOP)

        def have_left() -> bool:
            answered = {answer.id for _, answer in report.outcome.answers}
            return had <= answered.union(*(other.requests() for other in others))

        try:
            wait_for(lambda: worker.worker_id not in parts.known(), "the worker to leave discovery")
            report.times["until discovery knows"] = [time.perf_counter() - began]
            wait_for(have_left, "its requests to be elsewhere")
            report.times["until its requests are elsewhere"] = [time.perf_counter() - began]
        finally:
            worker.signal(signal.SIGCONT)
        began = time.perf_counter()
        wait_known(parts, worker)
        report.times["until it is found again"] = [time.perf_counter() - began]

    report = Report("a worker that was frozen, and found again once it went on")
    return await under_load(parts, report, freeze_one, clients=clients)


async def lose_discovery(
    parts: Parts, seconds: float, away: AbstractContextManager[None], *, clients: int = 6
) -> Report:
    """Take discovery away for so many seconds, and bring it back."""

    def lose() -> None:
        with away:
            time.sleep(seconds)
        for worker in parts.living():
            wait_known(parts, worker)
        if len(parts.living()) < len(parts.workers):
            report.faults.append("a worker has ended")

    report = Report(f"discovery was away for {seconds:g} s", is_seamless=True)
    return await under_load(parts, report, lose, clients=clients)


async def kill_door(parts: Parts, times: int) -> Report:
    """Kill the front door under load, and open another; what it had is cancelled, and no more than that is lost."""
    report = Report(f"a front door that is killed {times} times")
    noticed = report.times["until a worker has cancelled a request"] = []
    for _ in range(times):
        load = await Load.of(parts.address, kinds(TOKENS))
        clock = Clock()
        async with load.running(6):
            await trio.to_thread.run_sync(wait_busy, parts)
            running = {name for worker in parts.living() for name in worker.requests()}
            at = clock.wall(time.perf_counter())
            parts.door.signal(signal.SIGKILL)
        gone = {answer.id for _, answer in load.outcome.failed + load.outcome.refused}
        load.outcome.failed.clear()
        report.faults += await trio.to_thread.run_sync(leaks, parts.living())
        receipts = await trio.to_thread.run_sync(receipts_of, parts.living())
        for name in running & gone:
            if {receipt["reason"] for receipt in receipts[name]} != {"client_disconnect"}:  # one for each choice
                report.faults.append(f"{name} has receipts {receipts[name]}")
            noticed += [receipt["detected_at"] - at for receipt in receipts[name]]
        await trio.to_thread.run_sync(parts.open_door)
        await trio.to_thread.run_sync(parts.wait_whole)
        await load.once(parts.address)
        report.outcome.add(load.outcome)
    return report


def wait_busy(parts: Parts) -> None:
    """Wait until each worker has a request."""
    for worker in parts.living():
        wait_for(worker.requests, "a request")
