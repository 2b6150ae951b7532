"""Ranks that are killed while their server computes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tests.live.cluster.proofs.evidence import Spread
from tests.live.http_client import Http1, completion, prompt
from tests.live.ranks.processes import TWO, ranks_of
from tests.live.server import Server, wait_for

ENDLESS = 4000  # tokens
PROMISED = 2.0  # seconds


@dataclass(slots=True)
class Report:
    """Result of the deaths: seconds until the client was told, and until the whole group had ended."""

    told: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """Say it in a few lines."""
        return f"until the client was told:  {Spread.of(self.told)}\nuntil the group had ended: {Spread.of(self.ended)}"

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert max(self.ended) <= PROMISED, self


def kill_many(times: int) -> Report:
    """Kill the other rank of so many servers, one after the other, each while it generates."""
    report = Report()
    for _ in range(times):
        with Server(*TWO) as server, Http1(server, completion(prompt(20), ENDLESS)) as running:
            wait_for(lambda server=server: server.get("/v1/statistics")["manager"]["steps"] > 3, "tokens")  # type: ignore[misc]
            (rank,) = ranks_of(server)
            began = time.perf_counter()
            rank.kill()
            running.read_all()
            report.told.append(time.perf_counter() - began)
            assert [error["code"] for error in running.errors] == ["device_lost"]
            assert server.wait_exit() == 1
            report.ended.append(time.perf_counter() - began)
    return report
