"""Invariants of a request that is over: I4, I7, I9 and I15 of `tests.sim.invariants`."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, FinishReason
from actors.core.receipts import CancelReason
from actors.manager.recovery import MAX_RECOVERIES
from runtime.errors import (
    CedeError,
    DeadlineExceeded,
    DeviceLost,
    EndedByAnotherRequest,
    GrammarFailed,
    QueueFull,
    QueueTimeout,
    RequestError,
    ShuttingDown,
    StepFailed,
)
from runtime.testing.faults import CancelAt, Shutdown, SlowStep
from tests.sim.detached.visits import CAUSES
from tests.sim.grammars import Rule
from tests.sim.order.fairness import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from actors.core.generation import GenerationRequest
    from actors.core.receipts import Receipt
    from tests.fakes.kv_simulation import KVSimulation
    from tests.sim.clients import Story
    from tests.sim.device import FaultyModel
    from tests.sim.scenario import Scenario, Visit
    from tests.sim.watch import Watch


def check_exact(story: Story, model: FaultyModel, deceived: Set[tuple[str, int]] = frozenset()) -> None:
    """I4: whatever was generated is what the request would have got alone (C1), but for whom a lie has `deceived`."""
    if story.asked.sampling.min_tokens:
        return
    for index, tokens in enumerate(story.asked.prompts):
        got = story.tokens(index, all=True)
        if (story.asked.id, index) in deceived:
            continue
        expected = solo(model, story.asked, tokens, len(got))
        assert got == expected, f"I4: {story.asked.id}/{index} is not exact"


def check_prompt_outputs(story: Story, model: FaultyModel, deceived: Set[tuple[str, int]] = frozenset()) -> None:
    """I15: what a prompt gave is what it gives alone: all of it, once the request is whole; each token's score once."""
    outputs = story.asked.outputs
    for index, prompt in enumerate(story.asked.prompts):
        if (story.asked.id, index) in deceived:
            continue
        name, last = f"I15: {story.asked.id}/{index}", story.last(index)
        whole = isinstance(last, Finished) and last.reason is not FinishReason.CANCELLED
        expected = [] if outputs.alternatives is None else model.scores(prompt, outputs.alternatives)
        got = story.prompt_scores(index)
        assert got == (expected if whole else expected[: len(got)]), f"{name} has scores that are not its own"
        vector = last.vector if isinstance(last, Finished) else None
        if whole and outputs.pooling is not None:
            assert vector is not None, f"{name} has no vector"
            assert list(vector) == list(array("f", model.embedding(prompt, outputs.pooling))), f"{name}: {vector}"
        else:
            assert vector is None, f"{name} has a vector that nobody wants"


def solo(model: FaultyModel, asked: GenerationRequest, prompt: Sequence[int], tokens: int) -> list[int]:
    """Return what a request gets alone: so many tokens, or fewer where its grammar is complete with them."""
    if asked.grammar is None:
        return model.continuation(prompt, tokens)
    rule = Rule.of(asked.grammar)
    draw = partial(rule.draw, vocabulary=model.vocab_size)
    return model.continuation(prompt, min(tokens, rule.length), draw)


def check_account(story: Story, index: int, watch: Watch, *, sums: bool = True) -> None:
    """I7: a generation ended once, and if that was a cancel there is one receipt, whose figures fit what ran (C5).

    Args:
        story: of the request.
        index: of the generation.
        watch: with what ran.
        sums: compare the token counts with the rows that ran.
    """
    name = f"I7: {story.asked.id}/{index}"
    receipts = [receipt for receipt in story.receipts if receipt.index == index]
    last = story.last(index)
    if story.opened and not story.hung_up:
        assert last is not None, f"{name} never ended"
    if not story.opened or (isinstance(last, Finished) and last.reason is not FinishReason.CANCELLED):
        assert not receipts, f"{name} was not cancelled, but has {receipts}"
        return
    if isinstance(last, Failed) and type(last.error) is CedeError and not receipts:
        return  # a bug met after the slot was free
    assert len(receipts) == 1, f"{name} was cancelled once, and has {len(receipts)} receipts"
    check_times(receipts[0], watch)
    check_detection(receipts[0], story, watch)
    assert receipts[0].wasted_tokens == receipts[0].computed_tokens - receipts[0].kept_tokens, f"{name}: {receipts[0]}"
    if sums and not receipts[0].parks:  # what was lost of one that was preempted is computed again
        check_sums(receipts[0], watch)


def check_times(receipt: Receipt, watch: Watch) -> None:
    """I7 and C2: from the cancel to the last kernel one layer, to the free slot no more than one step."""
    assert receipt.layers_after_cancel <= 1, f"I7: {receipt}"
    if receipt.slot_freed_at is None:
        assert receipt.phase in ("queued", "parked"), f"I7: {receipt}"
        assert receipt.last_kernel_at is None, f"I7: {receipt}"
        return
    assert receipt.phase not in ("queued", "parked"), f"I7: {receipt}"
    held = receipt.slot_freed_at - receipt.detected_at
    assert -ROUNDING <= held <= watch.device.longest_layer * watch.model.num_layers + ROUNDING, (
        f"I5: held for {held} s: {receipt}"
    )
    if receipt.last_kernel_at is not None:
        assert receipt.last_kernel_at <= receipt.detected_at + watch.device.longest_layer + ROUNDING, f"I5: {receipt}"
        assert receipt.last_kernel_at <= receipt.slot_freed_at + ROUNDING, f"I5: {receipt}"


def check_detection(receipt: Receipt, story: Story, watch: Watch) -> None:
    """I5: the cancel was noticed in the moment in which it came, wherever the request was (C2)."""
    causes = {
        CancelReason.DISCONNECT: story.left_at,
        CancelReason.OPERATOR: story.deleted_at,
        CancelReason.GROUP: story.group_ended_at,
    }
    came_at = causes.get(receipt.reason)
    if came_at is None:
        return
    late = watch.books.cancelled_at[receipt.request_id, receipt.index] - came_at
    assert late <= watch.device.jumped + ROUNDING, f"I5: noticed {late:.6f} s late: {receipt}"


def check_sums(receipt: Receipt, watch: Watch) -> None:
    """I7: the receipt's token counts against the rows of the steps that ran."""
    owner = (receipt.request_id, receipt.index)
    runs = [run for step in watch.steps if not step.drafting for run in step.runs if run.owner == owner]
    assert receipt.computed_tokens == sum(run.rows for run in runs if run.touched), f"I7: {receipt}, {runs}"
    # What failed on cached KV is read again from the start, and what it had computed before is not kept.
    restart = max((i for i, run in enumerate(runs) if run.start == 0), default=0)
    kept = sum(run.kept for run in runs[restart:])
    assert receipt.kept_tokens in (0, kept), f"I7: {receipt}, {runs}"


# --- of a whole scenario, I9 ------------------------------------------------------------------------------------------


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


def _group_causes(story: Story) -> set[CancelReason]:
    """Return what others may do to it; whether they did, `tests.sim.groups.watch` and `tests.sim.warm.watch` say."""
    control = story.asked.control
    causes = {
        CancelReason.GROUP: story.group_ended_at is not None,
        CancelReason.SIBLING_WON: control.first_wins,
        CancelReason.SUPERSEDED: control.supersede is not None,
        CancelReason.OTHER_WORK: control.warm,
    }
    return {reason for reason, is_possible in causes.items() if is_possible}


def _blamed(sim: KVSimulation) -> set[tuple[str, int]]:
    """Generations that were alone in a step of the target that raised, or whose numbers were not finite.

    Not those that met KV which does not bear a step: they are computed from a clean state, unseen by the client.
    """
    targets = [step for step in sim.steps if not step.drafting]
    alone = {step.runs[0].owner for step in targets if step.failed and len(step.runs) == 1 and not step.cursed}
    return alone | {run.owner for step in targets for run in step.runs if not run.finite}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation: what may be a reason for what."""

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
            case EndedByAnotherRequest(code=code):
                assert code in _group_causes(story), f"I9: {name} was refused: {error}"
            case RequestError(param="cede.after"):
                assert story.asked.control.after is not None, f"I9: {name} was refused: {error}"
            case RequestError():
                assert len(story.asked.prompts) > self.places, f"I9: {name} was refused: {error}"
            case ShuttingDown():
                assert self.shut_down, f"I9: {name} was refused: {error}"
            case DeviceLost():
                assert self.queue_lost, f"I9: {name} was refused: {error}"
            case DeadlineExceeded():
                assert story.asked.timeout is not None, f"I9: {name} was refused: {error}"
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
                causes = self._causes(visit) | _group_causes(story)
                assert reason in causes | {CancelReason.OPERATOR}, f"I9: {name} was cancelled by {reason}"
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
        causes = set() if visit.leaving is None else set(CAUSES[visit.leaving.control.on_disconnect])
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
        most = min(most, sim.engine.model.context_length - len(prompt))
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
