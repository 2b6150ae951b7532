"""Record of a soak: the process, the receipts and the statistics, and what the clients saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from tests.live.server import Json, Server, wait_for


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of an idle server."""

    tasks: int
    descriptors: int
    sockets: int
    threads: int
    memory: int  # bytes, resident

    @classmethod
    def of(cls, server: Server) -> Figures:
        """Look at a server, through its pages and at its process."""
        process = psutil.Process(server.pid)
        return cls(
            tasks=server.get("/v1/statistics")["tasks"],
            descriptors=process.num_fds(),
            sockets=len(process.net_connections("all")),
            threads=process.num_threads(),
            memory=process.memory_info().rss,
        )

    @classmethod
    def once_back_at(cls, before: Figures, server: Server) -> Figures:
        """Return those of a server that has given everything back: a thread that is idle lingers for some seconds."""
        now = cls.of(server)

        def is_back() -> bool:
            nonlocal now
            now = cls.of(server)
            return now.is_back_at(before)

        try:
            wait_for(is_back, "everything to be given back")
        except AssertionError as error:
            raise AssertionError(f"{error}: {before} became {now}") from None
        return now

    def is_back_at(self, before: Figures) -> bool:
        """Return whether nothing countable is left; memory is looked at apart."""
        names = ("tasks", "descriptors", "sockets", "threads")
        return all(getattr(self, name) <= getattr(before, name) for name in names)


@dataclass(slots=True)
class Record:
    """Record of what the clients saw of the server, and what it said of itself meanwhile."""

    visits: Counter[tuple[str, str]] = field(default_factory=Counter)  # what a client meant to do, and how it ended
    tokens: int = 0  # read by clients
    compared: int = 0  # tokens of those who only listen
    reasons: dict[str, set[str]] = field(default_factory=dict)  # by request id: what its receipts may say
    receipts: dict[tuple[str, int], Json] = field(default_factory=dict)
    finished_rows: int = 0  # computed for the responses that were read whole

    def note_receipts(self, receipts: Sequence[Json]) -> None:
        """Keep receipts, each once."""
        self.receipts |= {(receipt["request_id"], receipt["index"]): receipt for receipt in receipts}

    def check(self, statistics: Json) -> None:
        """Raise AssertionError where clients, receipts and statistics of an idle server disagree."""
        for receipt in self.receipts.values():
            check_receipt(receipt)
            allowed = self.reasons.get(receipt["request_id"], {"client_disconnect"})
            assert receipt["reason"] in allowed, (receipt, allowed)
        manager = statistics["manager"]
        counted = Counter(receipt["reason"] for receipt in self.receipts.values())
        assert counted == Counter(manager["cancels"]), (counted, manager["cancels"])
        assert (statistics["live_requests"], manager["queued"], manager["leased"]) == (0, 0, 0), statistics
        assert (manager["failed_steps"], manager["device_losses"]) == (0, 0), manager
        assert manager["cache"]["audit_failures"] == manager["cache"]["strikes"] == 0, manager["cache"]
        assert manager["rows"] == manager["prefill_tokens"] + manager["decode_tokens"], manager
        known = self.finished_rows + sum(receipt["computed_tokens"] for receipt in self.receipts.values())
        assert known <= manager["rows"], f"{known} rows are accounted for, but only {manager['rows']} were computed"
        drafts = statistics["speculation"]
        assert drafts["accepted_tokens"] <= drafts["drafted_tokens"], drafts
        assert self.compared, "nobody has listened to the end"

    def summary(self, statistics: Json) -> str:
        """All of it in words."""
        manager, drafts = statistics["manager"], statistics["speculation"]
        phases = Counter(receipt["phase"] for receipt in self.receipts.values())
        return "\n".join(
            [
                f"{self.visits.total()} requests, {self.tokens} tokens read, {self.compared} of them compared",
                *(f"  {name:20} {outcome:8} {count:6}" for (name, outcome), count in sorted(self.visits.items())),
                f"receipts by reason: {dict(+Counter(manager['cancels']))}, by phase: {dict(phases)}",
                f"steps: {manager['steps']}, rows: {manager['rows']}, KV found: {manager['cache']['hits']}",
                f"draft steps: {drafts['draft_steps']}, drafts: {drafts['drafted_tokens']}, "
                f"accepted: {drafts['accepted_tokens']}",
                describe_loop(statistics["loop"]),
            ]
        )


def describe_loop(loop: Json) -> str:
    """Return what held the event loop, in words: no test decides by it, since a busy machine holds it, too."""
    times = ", ".join(f"{cause} {count} times" for cause, count in loop["holds"].items())
    longest = "nothing"
    if worst := loop["worst"]:
        place = " < ".join(worst["where"] or worst["others"])
        longest = f"{worst['seconds'] * 1e3:.0f} ms, {worst['cause']}, {worst['task'] or 'no task'}: {place}"
    return f"the loop held for {loop['threshold_seconds'] * 1e3:g} ms or more: {times}; at most {longest}"


def check_receipt(receipt: Json) -> None:
    """Check what every receipt has to say."""
    assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"], receipt
    assert receipt["wasted_tokens"] >= 0, receipt
    assert receipt["accepted_tokens"] <= receipt["drafted_tokens"], receipt
    assert receipt["layers_after_cancel"] <= 1, receipt
    if receipt["phase"] == "queued":
        assert receipt["computed_tokens"] == 0, receipt
        assert receipt["slot_freed_at"] is None, receipt
    else:
        assert receipt["detected_at"] <= receipt["slot_freed_at"], receipt
