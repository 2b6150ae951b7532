"""Whole runs: so many generations on servers that draft in each way, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from tests.live.schemas.cases import Case
from tests.live.schemas.crowd import Crowd, Found
from tests.live.server import Json, Server
from tests.soak.record import check_receipt

FLAGS = ("--slots", "4", "--queue", "64", "--context", "1024", "--kv-ram", "8MiB", "--log-level", "warning")


@dataclass(frozen=True, slots=True)
class Report:
    """Findings of one server's clients, and what the idle server said of itself then."""

    proposer: str
    found: Found
    statistics: Json
    receipts: Sequence[Json]
    log: str

    def __str__(self) -> str:
        """Say it in a few lines."""
        ends = ", ".join(f"{count} {end}" for end, count in sorted(self.found.ends.items()))
        keywords = ", ".join(f"{keyword} {count}" for keyword, count in Counter(self.found.refused.values()).items())
        drafts = self.statistics["speculation"]
        return "\n".join(
            [
                f"--speculate {self.proposer}: {ends}",
                f"  schemas refused: {len(self.found.refused)}: {keywords}",
                f"  receipts {len(self.receipts)}, drafts {drafts['drafted_tokens']}, "
                f"accepted {drafts['accepted_tokens']}, failed steps {self.statistics['manager']['failed_steps']}",
                *self.found.faults,
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if an output was not of its schema, or anything else was not as it should be."""
        assert not self.found.faults, self
        assert self.found.count("validated"), self
        manager = self.statistics["manager"]
        assert (self.statistics["live_requests"], manager["queued"], manager["leased"]) == (0, 0, 0), self.statistics
        assert (manager["failed_steps"], manager["device_losses"]) == (0, 0), manager
        assert manager["cache"]["audit_failures"] == manager["cache"]["strikes"] == 0, manager["cache"]
        for receipt in self.receipts:
            check_receipt(receipt)
            assert receipt["reason"] == "client_disconnect", receipt
        assert len(self.receipts) == sum(manager["cancels"].values()), manager["cancels"]
        assert len(self.receipts) <= self.found.count("left"), self
        drafts = self.statistics["speculation"]
        assert (drafts["drafted_tokens"] > 0) == (self.proposer != "off"), drafts
        assert "ERROR" not in self.log, self.log[-4000:]
        assert "Traceback" not in self.log, self.log[-4000:]


def generate(
    server: Server, proposer: str, cases: Sequence[Case], numbers: Sequence[int], *, max_tokens: int, seed: int = 0
) -> Report:
    """Ask a fresh server that drafts so for generations, and look at it when it is idle again."""
    crowd = Crowd(server, cases, max_tokens, seed)
    trio.run(crowd.ask_for, numbers)
    server.wait_idle()
    receipts = server.get("/v1/receipts?limit=1024")["data"]
    return Report(proposer, crowd.found, server.get("/v1/statistics"), receipts, server.log())
