"""Plays a scenario, and checks that whatever became of each request has a cause in the script (I9)."""

from __future__ import annotations

import math
import tempfile
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Failed, Finished, FinishReason
from actors.core.receipts import CancelReason
from actors.manager.recovery import MAX_RECOVERIES
from runtime.errors import (
    DeadlineExceeded,
    DeviceLost,
    GrammarFailed,
    QueueFull,
    QueueTimeout,
    RequestError,
    ShuttingDown,
    StepFailed,
)
from runtime.loading.served import Proposer
from runtime.testing.faults import CancelAt, Chaos, Shutdown, SlowStep
from tests.fakes.kv_simulation import open_kv_simulation, open_settled_disk
from tests.sim.device import CULPRIT, VOCABULARY
from tests.sim.endings import solo
from tests.sim.grammars import Rule
from tests.sim.instruments.attached import instruments_on
from tests.sim.kv.lies import Lies
from tests.sim.scenario import CONTEXT, LOOKED_UP, first_request, next_request
from tests.sim.scheduler import run
from tests.sim.tally import digest_of, tally_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from actors.core.generation import GenerationRequest
    from actors.core.receipts import Receipt
    from runtime.errors import CedeError
    from tests.fakes.kv_simulation import KVSimulation
    from tests.sim.clients import Story
    from tests.sim.kv.tiers import SettledDisk
    from tests.sim.scenario import Scenario, Visit
    from tests.sim.tally import Tally


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
            async with trio.open_nursery() as clients:
                for number, visit in enumerate(scenario.visits):
                    owner = scenario.owners[number % len(scenario.owners)]
                    clients.start_soon(_visit, sim, clients, visit, f"r{number}", owner)
        check_endings(sim, scenario)
        return Played(tally_of(sim), digest_of(sim))

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
    with (
        tempfile.TemporaryDirectory() as folder,
        open_settled_disk(Path(folder), blocks=scenario.disk, chaos=chaos, windowed=scenario.rings is not None) as disk,
    ):
        yield disk


# --- clients ----------------------------------------------------------------------------------------------------------


async def _visit(sim: KVSimulation, clients: trio.Nursery, visit: Visit, name: str, owner: str | None) -> None:
    """A client, and its returns."""
    asked = first_request(visit, name, owner)
    await trio.sleep(visit.arrives)
    for number, retry in enumerate(visit.retries):
        story = await _request(sim, clients, visit, asked)
        await trio.sleep(retry.after)
        whole = [*asked.prompts[0], *story.tokens()]
        asked = next_request(visit, retry, asked, f"{name}.{number + 1}", whole)
    await _request(sim, clients, visit, asked)


async def _request(sim: KVSimulation, clients: trio.Nursery, visit: Visit, asked: GenerationRequest) -> Story:
    now = trio.current_time()
    hang_up_at = math.inf if visit.hang_up_at is None else now + visit.hang_up_at
    if not visit.reads:
        hang_up_at = min(hang_up_at, now + 1.0)  # one that only holds its connection would never leave
    if visit.deleted_at is not None:
        clients.start_soon(_delete, sim, asked.id, now + visit.deleted_at)
    return await sim.client(
        asked, hang_up_after=visit.hang_up_after, hang_up_at=hang_up_at, pause=visit.pause, reads=visit.reads
    )


async def _delete(sim: KVSimulation, request_id: str, at: float) -> None:
    await trio.sleep_until(at)
    sim.delete(request_id)


# --- endings ----------------------------------------------------------------------------------------------------------


def check_endings(sim: KVSimulation, scenario: Scenario) -> None:
    """I9: a request ended early because of something that happened to itself, and else it got all of its solo run."""
    chaos, losses = sim.watch.chaos, sim.engine.statistics().manager.device_losses
    explain = Explanation(
        blamed=_blamed(sim),
        shut_down=chaos.has_happened(Shutdown),
        losses=losses,
        queue_lost=chaos.has_happened(SlowStep) or losses > MAX_RECOVERIES,
        queue_timeout=scenario.queue_timeout is not None,
        places=scenario.slots + scenario.queue,
    )
    by_chaos: set[str] = set()
    for request_id, story in sim.stories.items():
        visit = scenario.visits[int(request_id[1:].partition(".")[0])]
        if not story.opened:
            explain.refusal(story)
            continue
        for index in range(len(story.asked.prompts)):
            explain.ending(sim, story, visit, index, by_chaos)
    planned = sum(isinstance(fault, CancelAt) for fault in chaos.fired)
    assert len(by_chaos) <= planned, f"I9: {by_chaos} were cancelled by an operator, who cancelled {planned}"


def _blamed(sim: KVSimulation) -> set[tuple[str, int]]:
    """Generations that were alone in a step of the target that raised, or whose numbers were not finite.

    Not those that met KV which does not bear a step: they are computed from a clean state, unseen by the client.
    """
    targets = [step for step in sim.steps if not step.drafting]
    alone = {step.runs[0].owner for step in targets if step.failed and len(step.runs) == 1 and not step.cursed}
    return alone | {run.owner for step in targets for run in step.runs if not run.finite}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What may be a reason for what."""

    blamed: set[tuple[str, int]]
    shut_down: bool
    losses: int  # of the device
    queue_lost: bool  # with it, because it hung, or was lost too often
    queue_timeout: bool
    places: int

    def refusal(self, story: Story) -> None:
        """A request that was not let in."""
        error, name = story.error, story.asked.id
        match error:
            case None:
                assert story.hung_up, f"I9: {name} was neither let in nor refused"
            case RequestError():
                assert len(story.asked.prompts) > self.places, f"I9: {name} was refused: {error}"
            case ShuttingDown():
                assert self.shut_down, f"I9: {name} was refused: {error}"
            case DeviceLost():
                assert self.queue_lost, f"I9: {name} was refused: {error}"
            case _:
                assert isinstance(error, QueueFull), f"I9: {name} was refused: {error!r}"

    def ending(self, sim: KVSimulation, story: Story, visit: Visit, index: int, by_chaos: set[str]) -> None:
        """A generation that was let in."""
        name = f"{story.asked.id}/{index}"
        last = story.last(index)
        receipt = next((receipt for receipt in story.receipts if receipt.index == index), None)
        reason = None if receipt is None else receipt.reason
        match last:
            case Finished(reason=FinishReason.CANCELLED):
                assert reason in self._causes(visit) | {CancelReason.OPERATOR}, f"I9: {name} was cancelled by {reason}"
                if reason is CancelReason.OPERATOR and visit.deleted_at is None:
                    by_chaos.add(story.asked.id)
            case Finished() if (story.asked.id, index) in sim.watch.deceived:
                pass  # it got what a lie made of it, until somebody's audit found that
            case Finished():
                self._check_whole(sim, story, index, last.reason)
            case Failed(error=error):
                assert self._is_explained(error, story, visit, receipt), f"I9: {name} failed: {error!r}"
            case None:
                assert story.hung_up, f"I7: {name} never ended"

    def _causes(self, visit: Visit) -> set[CancelReason]:
        causes = set()
        if visit.hang_up_after is not None or visit.hang_up_at is not None or not visit.reads:
            causes.add(CancelReason.DISCONNECT)
        if visit.timeout is not None:
            causes.add(CancelReason.DEADLINE)
        if self.shut_down:
            causes.add(CancelReason.SHUTDOWN)
        return causes

    def _check_whole(self, sim: KVSimulation, story: Story, index: int, reason: FinishReason) -> None:
        """All that the request would have got alone, and for the same reason."""
        prompt, most = story.asked.prompts[index], story.asked.max_tokens
        assert most is not None
        expected = solo(sim.model, story.asked, prompt, most)
        complete = story.asked.grammar is not None and len(expected) == Rule.of(story.asked.grammar).length
        ends = FinishReason.STOP if complete else FinishReason.LENGTH
        stop = next((i for i, token in enumerate(expected) if token in sim.engine.model.eos_token_ids), None)
        if stop is not None:
            expected, ends = expected[: stop + 1], FinishReason.STOP
        got = story.tokens(index, all=True)
        assert (got, reason) == (expected, ends), f"I4: {story.asked.id}/{index} got {got}, {reason}; not {expected}"

    def _is_explained(self, error: CedeError, story: Story, visit: Visit, receipt: Receipt | None) -> bool:
        assert receipt is not None, f"I7: {story.asked.id} failed without a receipt: {error!r}"
        match error:
            case StepFailed():
                return (story.asked.id, receipt.index) in self.blamed
            case GrammarFailed():
                grammar = story.asked.grammar
                return grammar is not None and Rule.of(grammar).fails_at is not None
            case QueueTimeout():
                return self.queue_timeout
            case DeadlineExceeded():
                return visit.timeout is not None
            case ShuttingDown():
                return self.shut_down
            case DeviceLost():
                return self.losses > 0 and (self.queue_lost or receipt.phase != "queued")
            case _:
                return False
