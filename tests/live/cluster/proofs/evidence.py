"""Evidence of the workers: receipts, lines of the log, and what is leased."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.live.cluster.parts import ForkedWorker
from tests.live.server import Json, wait_for

REMEMBERED = 1024  # receipts, by each worker


class Clock:
    """From this process's clock to that of receipts.

    Both count what the kernel counts for all processes; a worker has added the time of day at its start, and this has
    added it, too.  Where somebody sets the time of day meanwhile, they differ by that (`set_since`).
    """

    def __init__(self) -> None:
        self._epoch = time.time() - time.perf_counter()

    def wall(self, at: float) -> float:
        """Return the time of a receipt that has been written at this time of `perf_counter`."""
        return self._epoch + at

    def set_since(self) -> float:
        """By how many seconds the time of day was set since this was made."""
        return time.time() - time.perf_counter() - self._epoch


def receipts_of(workers: Iterable[ForkedWorker]) -> dict[str, list[Json]]:
    """All receipts that the workers remember, by request."""
    found: dict[str, list[Json]] = defaultdict(list)
    for worker in workers:
        for receipt in worker.get(f"/v1/receipts?limit={REMEMBERED}")["data"]:
            found[receipt["request_id"]].append(receipt)
    return found


def endings(folder: Path) -> dict[str, list[Json]]:
    """Return what the workers' logs say of each request that ended there, by request; of those that are gone, too."""
    found: dict[str, list[Json]] = defaultdict(list)
    for path in folder.glob("server-*.log"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and "queued_seconds" in line:
                told = json.loads(line)
                found[told["request_id"]].append(told)
    return found


def leaks(workers: Iterable[ForkedWorker]) -> list[str]:
    """Wait until nothing runs on these workers, and say what is held all the same."""
    found = []
    for worker in workers:
        worker.wait_idle()
        wait_for(lambda worker=worker: worker.get("/v1/statistics")["manager"]["leased"] == 0, "no lease")  # type: ignore[misc]
        told = worker.get("/v1/statistics")
        manager = told["manager"]
        held = {
            "live requests": told["live_requests"],
            "queued": manager["queued"],
            "leased": manager["leased"],
            "KV promised": (manager.get("pool") or {}).get("promised", 0),
            "failed steps": manager["failed_steps"],
        }
        if any(held.values()):
            found.append(f"worker {worker.worker_id} is idle, and has {held}")
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """Of some times, in milliseconds."""

    count: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Summarise."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0)
        ordered = sorted(seconds)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return cls(len(ordered), 1e3 * statistics.median(ordered), 1e3 * p99, 1e3 * ordered[-1])

    def __str__(self) -> str:
        """Say it in a few words."""
        if not self.count:
            return "none"
        return f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, max {self.longest:.1f} ms of {self.count}"
