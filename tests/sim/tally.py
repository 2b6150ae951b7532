"""What happened in scenarios, in figures."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished
from tests.sim.device import CULPRIT

if TYPE_CHECKING:
    from tests.fakes.kv_simulation import KVSimulation


@dataclass(slots=True)
class Tally:
    """What happened in some scenarios."""

    scenarios: int = 0
    requests: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # generations, by how
    steps: int = 0
    draft_steps: int = 0
    moves: int = 0
    cancels: Counter[str] = field(default_factory=Counter)  # by phase
    reasons: Counter[str] = field(default_factory=Counter)  # of the cancels
    faults: Counter[str] = field(default_factory=Counter)  # by kind
    lies: Counter[str] = field(default_factory=Counter)  # told, found, audits, who was deceived
    virtual_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Take what happened in other scenarios in."""
        self.scenarios += other.scenarios
        self.requests += other.requests
        self.steps += other.steps
        self.draft_steps += other.draft_steps
        self.moves += other.moves
        self.virtual_seconds += other.virtual_seconds
        for name in ("refused", "ended", "cancels", "reasons", "faults", "lies"):
            getattr(self, name).update(getattr(other, name))


def tally_of(sim: KVSimulation) -> Tally:
    """Count what happened in a scenario."""
    tally = Tally(scenarios=1, requests=len(sim.stories), moves=len(sim.watch.moved))
    for story in sim.stories.values():
        if story.opened:
            tally.ended.update(_how(story.last(index)) for index in range(len(story.asked.prompts)))
        else:
            tally.refused[type(story.error).__name__ if story.error else "hung up before"] += 1
    tally.draft_steps = sum(step.drafting for step in sim.steps)
    tally.steps = len(sim.steps) - tally.draft_steps
    for receipt in sim.engine.receipts(10_000):
        tally.cancels[receipt.phase] += 1
        tally.reasons[receipt.reason] += 1
    tally.faults.update(fault.what for fault in sim.fired)
    tally.faults["cursed prompt"] = sum(
        story.opened and CULPRIT in prompt for story in sim.stories.values() for prompt in story.asked.prompts
    )
    statistics = sim.cache.statistics()
    tally.lies.update(told=len(sim.model.lies), found=len(sim.model.lies.found), deceived=len(sim.watch.deceived))
    tally.lies.update({"audits": statistics.audits, "audits that failed": statistics.audit_failures})
    tally.lies["scenarios"] = int(len(sim.model.lies) > 0)
    tally.virtual_seconds = sim.steps[-1].finished_at - sim.steps[0].started_at if sim.steps else 0.0
    return tally


def _how(last: Finished | Failed | None) -> str:
    if last is None:
        return "nobody there"
    return last.reason if isinstance(last, Finished) else type(last.error).__name__


def digest_of(sim: KVSimulation) -> str:
    """Return what tells two runs apart: a digest of every step and event."""
    told = [(story.asked.id, story.tokens(all=True), story.times) for story in sim.stories.values()]
    return hashlib.sha256(repr((sim.steps, told)).encode()).hexdigest()[:16]
