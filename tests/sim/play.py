"""Plays a scenario, and checks what has come of it."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import trio

from actors.core.generation import Failed, Finished, GenerationRequest
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, open_settled_disk
from tests.sim.clients import Story
from tests.sim.detached import visits
from tests.sim.detached.visits import BOUNDS
from tests.sim.device import CULPRIT, VOCABULARY
from tests.sim.endings import check_endings
from tests.sim.figures import shares
from tests.sim.groups.drawn import GroupEnd
from tests.sim.instruments.attached import instruments_on
from tests.sim.kv.lies import Lies
from tests.sim.kv.tiers import SettledDisk
from tests.sim.scenario import CONTEXT, LOOKED_UP, Scenario, Visit, first_request, next_request
from tests.sim.scheduler import run
from tests.sim.warm.drawn import in_earnest
from web.storage.detached.runs import Runs, open_runs


@dataclass(slots=True)
class Tally:
    """Counts of what happened in some scenarios."""

    scenarios: int = 0
    requests: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # generations, by how
    steps: int = 0
    draft_steps: int = 0
    moves: int = 0
    places: Counter[str] = field(default_factory=Counter)  # what was done in the arena
    cancels: Counter[str] = field(default_factory=Counter)  # by phase
    reasons: Counter[str] = field(default_factory=Counter)  # of the cancels
    faults: Counter[str] = field(default_factory=Counter)  # by kind
    lies: Counter[str] = field(default_factory=Counter)  # told, found, audits, who was deceived
    preemptions: Counter[str] = field(default_factory=Counter)  # preemptions, resumes, and who ended meanwhile
    drawn: Counter[str] = field(default_factory=Counter)  # scenarios, by what was drawn for them
    seen: Counter[str] = field(default_factory=Counter)  # and by what of that came to pass
    virtual_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Take what happened in other scenarios in."""
        self.scenarios += other.scenarios
        self.requests += other.requests
        self.steps += other.steps
        self.draft_steps += other.draft_steps
        self.moves += other.moves
        self.virtual_seconds += other.virtual_seconds
        for name in (
            "refused",
            "ended",
            "cancels",
            "reasons",
            "faults",
            "lies",
            "places",
            "preemptions",
            "drawn",
            "seen",
        ):
            getattr(self, name).update(getattr(other, name))


@dataclass(slots=True)
class Played:
    """A scenario that went well."""

    tally: Tally
    digest: str  # of every step and event: two runs of one seed have the same


def play(scenario: Scenario) -> Played:
    """Play a scenario to its end.

    Raises:
        AssertionError: something did not hold; the message begins with the invariant's name where it has one.
        Hung: something waited for ever.
    """

    async def main() -> Played:
        async with _opened(scenario) as sim:
            async with open_runs(sim.engine, BOUNDS) as runs, trio.open_nursery() as clients:
                for number, visit in enumerate(scenario.visits):
                    owner = scenario.owners[number % len(scenario.owners)]
                    clients.start_soon(_visit, sim, runs, clients, visit, f"r{number}", owner)
                for end in scenario.group_ends:
                    clients.start_soon(_end_group, sim, end)
        check_endings(sim, scenario)
        return Played(_tally(sim, scenario), _digest(sim))

    return run(main, seed=scenario.seed)


@asynccontextmanager
async def _opened(scenario: Scenario) -> AsyncIterator[KVSimulation]:
    """The engine of a scenario, with its faults; at its end, everything must have been given back."""
    base, row = scenario.step_seconds
    chaos = Chaos(scenario.plan)
    with _disk_of(scenario, chaos) as disk:
        async with open_kv_simulation(
            slots=scenario.slots,
            queue=scenario.queue,
            queue_timeout=scenario.queue_timeout,
            chunk_tokens=scenario.chunk_tokens,
            layers=scenario.layers,
            step_seconds=lambda rows: base + row * rows,
            context=CONTEXT,
            state_buffers=scenario.state_buffers,
            positions=scenario.positions,
            ram=scenario.ram,
            disk=disk,
            piece=scenario.piece,
            block_seconds=scenario.block_seconds,
            hold_seconds=scenario.hold_seconds,
            audit_share=scenario.audit_share,
            speculate=scenario.speculate,
            draft_tokens=scenario.draft_tokens,
            accuracy=scenario.accuracy,
            end_ids=scenario.end_ids,
            vocabulary=LOOKED_UP if scenario.speculate is Proposer.NGRAM else VOCABULARY,
            chaos=chaos,
            lies=Lies(scenario.lies, scenario.seed),
            rings=scenario.rings,
            isolate_owners=len(scenario.owners) > 1,
            ageing_seconds=scenario.ageing,
            preemption=scenario.preemption,
            burst_seconds=scenario.burst_seconds,
        ) as sim:
            sim.faults.raise_on.add(CULPRIT)
            sim.faults.cursed = scenario.cursed_blocks
            sim.faults.late_masks = scenario.late_masks
            sim.watch.device.recovery_seconds = scenario.recovery_seconds
            async with instruments_on(sim.engine) if scenario.instruments else nullcontext():
                yield sim


@contextmanager
def _disk_of(scenario: Scenario, chaos: Chaos) -> Iterator[SettledDisk | None]:
    if not scenario.disk:
        yield None
        return
    kind = {"windowed": scenario.rings is not None, "states": scenario.state_buffers > 0}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_settled_disk(Path(folder), blocks=scenario.disk, chaos=chaos, **kind) as disk,
    ):
        yield disk


# --- clients ----------------------------------------------------------------------------------------------------------


async def _visit(
    sim: KVSimulation, runs: Runs, clients: trio.Nursery, visit: Visit, name: str, owner: str | None
) -> None:
    """A client, and its returns."""
    asked = first_request(visit, name, owner)
    await trio.sleep(visit.arrives)
    for number, retry in enumerate(visit.retries):
        story = await _request(sim, runs, clients, visit, asked)
        await trio.sleep(retry.after)
        whole = [*asked.prompts[0], *story.tokens()]
        visit = in_earnest(visit)
        asked = next_request(visit, retry, asked, f"{name}.{number + 1}", whole)
    await _request(sim, runs, clients, visit, asked)


async def _request(
    sim: KVSimulation, runs: Runs, clients: trio.Nursery, visit: Visit, asked: GenerationRequest
) -> Story:
    now = trio.current_time()
    hang_up_at = math.inf if visit.hang_up_at is None else now + visit.hang_up_at
    if not visit.reads:
        hang_up_at = min(hang_up_at, now + 1.0)  # one that only holds its connection would never leave
    if visit.deleted_at is not None:
        clients.start_soon(_delete, sim, asked.id, now + visit.deleted_at)
    if visit.leaving is not None:
        return await visits.visit(sim, runs, asked, visit.leaving)
    return await sim.client(
        asked, hang_up_after=visit.hang_up_after, hang_up_at=hang_up_at, pause=visit.pause, reads=visit.reads
    )


async def _delete(sim: KVSimulation, request_id: str, at: float) -> None:
    await trio.sleep_until(at)
    sim.delete(request_id)


async def _end_group(sim: KVSimulation, end: GroupEnd) -> None:
    await trio.sleep_until(end.at)
    sim.end_group(end.owner, end.name)


# --- figures ----------------------------------------------------------------------------------------------------------


def _tally(sim: KVSimulation, scenario: Scenario) -> Tally:
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
    counts = sim.manager.table.pages.counts
    tally.places.update({"shared tokens": counts.shared_tokens, "copied pages": counts.copied_pages})
    tally.places.update({"given up": counts.given_up, "small arenas": int(scenario.positions is not None)})
    manager = sim.engine.statistics().manager
    tally.preemptions.update(parks=manager.parks, resumes=manager.resumes)
    tally.drawn.update(shares.drawn(scenario))
    tally.seen.update(shares.seen(sim))
    tally.virtual_seconds = sim.steps[-1].finished_at - sim.steps[0].started_at if sim.steps else 0.0
    return tally


def _how(last: Finished | Failed | None) -> str:
    if last is None:
        return "nobody there"
    return last.reason if isinstance(last, Finished) else type(last.error).__name__


def _digest(sim: KVSimulation) -> str:
    told = [(story.asked.id, story.tokens(all=True), story.times) for story in sim.stories.values()]
    return hashlib.sha256(repr((sim.steps, told)).encode()).hexdigest()[:16]
