"""Overview of a server: speeds, waiting times and why, sums, and which request is chosen.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from web.commands.top.sample import worker_of

if TYPE_CHECKING:
    from web.commands.top.sample import Json, Sample

IDLE, QUEUED = "idle", "queued"


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot.

    Attributes:
        number: of it, at its worker.
        state: of whoever holds it, or `idle`.
        request: the id; None for one that is free, or somebody else's.
        tokens: of the sequence in it, or those that are kept in it while it is free.
        speed: tokens a second of its request; None where it is not known yet.
        worker: of a cluster; empty for a server alone.
    """

    number: int
    state: str
    request: str | None
    tokens: int
    speed: float | None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A request that waits for a slot.

    Attributes:
        request: the id.
        seconds: for how long.
        prompt_tokens: of its prompts.
        why: it does.
    """

    request: str
    seconds: float
    prompt_tokens: int
    why: str


class Overview:
    """Overview of a server, with what a person has chosen.

    Attributes:
        newest: sample; None before the first.
        problem: why there is no newer one; None where there is.
        message: what was done last; empty for nothing.
        chosen: the id of a request; None where none lives.
    """

    def __init__(self) -> None:
        self.newest: Sample | None = None
        self.problem: str | None = None
        self.message = ""
        self.chosen: str | None = None
        self._before: Sample | None = None

    def take(self, sample: Sample) -> None:
        """Show a newer sample.  The first after a loss says nothing about speeds: it may be of another process."""
        self._before = None if self.problem is not None else self.newest
        self.newest, self.problem = sample, None
        if self.chosen not in self.ids():
            self.chosen = next(iter(self.ids()), None)

    def lose(self, problem: str) -> None:
        """Note that there is no newer sample, for that reason; what was known stays, but for speeds."""
        self.problem, self._before = problem, None

    def move(self, by: int) -> None:
        """Choose another request, so many lines further down; the ends are joined."""
        if ids := self.ids():
            place = ids.index(self.chosen) if self.chosen in ids else -1
            self.chosen = ids[(place + by) % len(ids)]

    # --- what is shown ------------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The live requests, in the order in which they are shown."""
        held = [row.request for row in self.slots() if row.request is not None]
        return list(dict.fromkeys([*held, *(row.request for row in self.queue())]))

    def slots(self) -> list[SlotRow]:
        """All slots."""
        if self.newest is None:
            return []
        return [
            SlotRow(
                slot["id"],
                slot["state"],
                slot["request_id"],
                slot["resident_tokens"] if slot["state"] == IDLE else slot["tokens"],
                self._speed(slot["request_id"]),
                worker_of(slot),
            )
            for slot in self.newest.slots
        ]

    def queue(self) -> list[QueueRow]:
        """Return those who wait, the oldest first."""
        if self.newest is None:
            return []
        waiting = [request for request in self.newest.requests if QUEUED in request["states"]]
        live = {request["id"] for request in self.newest.requests}
        rows = []
        for place, request in enumerate(waiting):
            waits_for_other = request["after"] in live
            why = f"{request['after']} has not ended" if waits_for_other else _why_waits(self.newest, request)
            before = f", {place} before it" if place else ""
            seconds = max(self.newest.now - request["created"], 0.0)
            rows.append(QueueRow(request["id"], seconds, request["prompt_tokens"], why + before))
        return rows

    def rate(self, name: str, worker: str = "") -> float | None:
        """Return how fast a count of a manager's grows, a second; None before the second sample of its engine."""
        if self.newest is None or self._before is None or self.newest.at <= self._before.at:
            return None
        if worker not in self._before.engines:
            return None
        now, before = (sample.engines[worker]["manager"] for sample in (self.newest, self._before))
        grown: int = now[name] - before[name]
        return max(grown, 0) / (self.newest.at - self._before.at)

    def _speed(self, request_id: str | None) -> float | None:
        if self.newest is None or self._before is None or request_id is None or self.newest.at <= self._before.at:
            return None
        now, before = _tokens_of(self.newest, request_id), _tokens_of(self._before, request_id)
        if now is None or before is None:
            return None
        return (now - before) / (self.newest.at - self._before.at)


def _tokens_of(sample: Sample, request_id: str) -> int | None:
    """Return how many tokens a request has made; None where it does not live."""
    found: list[Json] = [request for request in sample.requests if request["id"] == request_id]
    return found[0]["completion_tokens"] if found else None


def _why_waits(sample: Sample, request: Json) -> str:
    """Return why a request that waits for nobody's end has no slot."""
    worker = worker_of(request)
    if all(slot["state"] != IDLE for slot in sample.slots_of(worker)):
        return "every slot is taken"
    pool = sample.engines[worker]["manager"]["pool"] if worker in sample.engines else {"promised": 0}
    if pool["promised"]:
        return f"{pool['promised']} of {pool['positions']} tokens of KV are reserved for those who run"
    return "it gets a slot with the next turn"
