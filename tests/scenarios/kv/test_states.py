"""A model with a recurrent layer: its states are as exact as KV, and nothing that has one is computed again."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from actors.core.places.state_pool import least_buffers
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, DeviceError, Fault, FaultPlan, NotFinite
from runtime.text.stop_strings import StopAutomaton
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import CULPRIT, ask, simulated
from tests.scenarios.engine.together import STEP, same_time
from tests.sim.device import VOCABULARY

CHUNK = 48  # rows of a prompt in a step, or less where that ends with a block
LAYERS = 3
LONG = text(400, 1)


def recurrent(
    slots: int = 1,
    more: int = 60,
    drafts: int = 0,
    **config: Any,  # noqa: ANN401
) -> AbstractAsyncContextManager[KVSimulation]:
    """Open a simulation with so many more buffers than its slots need, and without tiers if nothing else is said."""
    buffers = least_buffers(slots) + more
    settings: dict[str, Any] = {
        "ram": 0,
        "layers": LAYERS,
        "chunk_tokens": CHUNK,
        "step_seconds": same_time,
        "draft_tokens": drafts or None,
    }
    return open_kv_simulation(slots=slots, state_buffers=buffers, **(settings | config))


def lengths(sim: KVSimulation, slot: int = 0) -> list[int]:
    """The lengths at which a slot has a state."""
    return sorted(sim.manager.table.slot(slot).states)


# --- what stays -------------------------------------------------------------------------------------------------------


@simulated()
async def test_states_stay_at_the_end_of_each_chunk_of_the_prompt_and_of_the_answer() -> None:
    async with recurrent() as sim:
        await sim.client(ask("a", LONG[:130], max_tokens=5))
        assert lengths(sim) == [48, 96, 128, 129, 130, 134]  # the whole blocks' end, and all but the last token, too


@simulated()
async def test_a_prompt_that_was_cancelled_is_read_on_where_it_was() -> None:
    async with recurrent() as sim:
        victim = await sim.client(ask("victim", LONG), hang_up_at=4.5 * STEP)
        (receipt,) = victim.receipts
        assert receipt.kept_tokens == 128 + CHUNK
        again = await sim.client(ask("again", LONG))
        assert again.finished().cached_tokens == receipt.kept_tokens
        assert sim.rows(again) == len(LONG) - receipt.kept_tokens


@simulated()
async def test_a_follow_up_goes_on_from_the_answer_and_another_end_from_the_nearest_state() -> None:
    async with recurrent() as sim:
        first = await sim.client(ask("first", LONG[:200], max_tokens=10))
        whole = sim.whole(first)
        follow_up = await sim.client(ask("follow up", [*whole, *text(20, 2)]))
        assert follow_up.finished().cached_tokens == len(whole) - 1
        other_end = await sim.client(ask("other end", [*LONG[:190], *text(30, 3)]))
        assert other_end.finished().cached_tokens == 128 + CHUNK
        assert [length for length in lengths(sim) if length > 176] == [192, 219, 220, 223]


@simulated()
async def test_the_same_prompt_again_reads_its_last_token_alone() -> None:
    async with recurrent() as sim:
        await sim.client(ask("a", LONG))
        again = await sim.client(ask("again", LONG))
        assert sim.rows(again) == 1


@simulated()
async def test_choices_of_one_prompt_share_its_state_and_read_a_token_each() -> None:
    async with recurrent(slots=3) as sim:
        story = await sim.client(ask("a", *[LONG] * 3, max_tokens=6))
        assert sorted(sim.rows(story, index) for index in range(3)) == [1, 1, len(LONG)]
        shared = {sim.manager.table.slot(slot).states[len(LONG) - 1] for slot in range(3)}
        assert len(shared) == 1


@simulated()
async def test_who_waits_for_what_is_shared_goes_on_behind_it() -> None:
    """However the leader's chunks are cut."""
    async with recurrent(slots=2) as sim:
        leader, follower = (ask(f"r{n}", [*LONG[:290], *text(60, n)]) for n in (2, 3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, leader)
            await trio.sleep(1.5 * STEP)
            story = await sim.client(follower)
        assert story.finished().cached_tokens == 290


@simulated()
async def test_of_too_many_states_those_go_that_cost_least_to_compute_again() -> None:
    async with recurrent(more=2) as sim:
        story = await sim.client(ask("a", LONG, max_tokens=6))
        assert lengths(sim)[-1] == len(sim.whole(story)) - 1
        gaps = [later - sooner for sooner, later in zip([0, *lengths(sim)], lengths(sim), strict=False)]
        assert max(gaps) <= 256
        again = await sim.client(ask("again", LONG))
        assert sim.rows(again) <= BLOCK_TOKENS
        told = sim.engine.statistics().manager.states
        assert told is not None
        assert told.named == told.snapshots == len(lengths(sim)) <= told.buffers == least_buffers(1) + 2
        assert told.evicted > 0


@simulated()
async def test_the_states_of_a_sequence_that_nobody_wants_go_first() -> None:
    async with recurrent(slots=2, more=2) as sim:
        await sim.client(ask("old", LONG))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, ask("new", text(400, 2), max_tokens=40))
            for n in range(3):
                await sim.client(ask(f"other {n}", text(100, 5 + n)))
        assert sum(length == 400 for slot in range(2) for length in lengths(sim, slot)) <= 1
        sim.manager.check_integrity()


@simulated()
async def test_who_is_preempted_goes_on_from_its_state() -> None:
    async with recurrent(ram=100, preemption="on", positions=1024) as sim:
        async with trio.open_nursery() as nursery:
            story = sim.expect(ask("old", LONG, max_tokens=40, priority=1))
            nursery.start_soon(sim.client, story.asked)
            await until(lambda: len(story.events) > 10)
            await sim.client(ask("new", text(90, 2), max_tokens=10))
        assert sim.manager.preemption.resumes == 1
        assert sim.rows(story) == len(LONG)


@simulated()
@pytest.mark.parametrize("more", [0, 1])
async def test_who_is_preempted_goes_on_from_its_state_however_few_buffers_there_are(more: int) -> None:
    """Also where its first step has just ended, and states that it displaced are still there.

    The other's drafts need as many buffers as a step may.
    """
    drafting: dict[str, Any] = {"drafts": 3, "speculate": Proposer.DRAFT, "accuracy": 1.0}
    async with recurrent(more=more, ram=100, preemption="on", positions=1024, **drafting) as sim:
        await sim.client(ask("before", LONG))
        async with trio.open_nursery() as nursery:
            story = sim.expect(ask("old", text(200, 2), max_tokens=1, priority=1))
            nursery.start_soon(sim.client, story.asked)
            await until(lambda: sim.watch.books.step is not None)
            assert sim.manager.table.slot(0).displaced
            await sim.client(ask("new", text(200, 3), max_tokens=10))
        assert sim.manager.preemption.resumes == 1
        assert sim.rows(story) == 200


# --- cancels, faults, drafts, bursts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", range(4 * LAYERS))
@simulated()
async def test_a_cancel_at_any_layer_leaves_the_state_of_before(layer: int) -> None:
    async with recurrent() as sim:
        victim = await sim.client(ask("victim", LONG[:100], max_tokens=3), hang_up_at=(layer + 0.5) * STEP / LAYERS)
        slot = sim.manager.table.slot(0)
        assert not slot.tokens or len(slot.tokens) in slot.states
        again = await sim.client(ask("again", [*LONG[:100], 7]))
        assert again.finished().cached_tokens == min(len(slot.before.tokens) if slot.before else 0, 100)
        assert victim.receipts or victim.finished()


@pytest.mark.parametrize("source", [Proposer.DRAFT, Proposer.MTP, Proposer.ASSISTANT])
@simulated()
async def test_the_states_of_rejected_drafts_are_nobodys(source: Proposer) -> None:
    async with recurrent(slots=2, drafts=4, speculate=source, accuracy=0.6) as sim:
        async with trio.open_nursery() as nursery:
            for n in range(2):
                nursery.start_soon(sim.client, ask(f"r{n}", text(60, n), max_tokens=50))
        counts = sim.manager.counts
        assert 0 < counts.accepted < counts.drafted
        assert [lengths(sim, slot)[-1] for slot in range(2)] == [60 + 49] * 2


@pytest.mark.parametrize("source", [Proposer.NGRAM, Proposer.DRAFT, Proposer.MTP, Proposer.ASSISTANT])
@simulated(seeds=2)
async def test_accepted_drafts_that_have_left_no_state_are_read_again(source: Proposer) -> None:
    """Of eight states that a verification of seven drafts could leave, there is room for four."""
    vocabulary = 5 if source is Proposer.NGRAM else VOCABULARY
    async with recurrent(slots=2, more=0, drafts=7, speculate=source, vocabulary=vocabulary) as sim:
        async with trio.open_nursery() as nursery:
            for n in range(2):
                nursery.start_soon(sim.client, ask(f"r{n}", text(30, n), max_tokens=60))
        rows = [run.rows for step in sim.steps if not step.drafting for run in step.runs if run.start >= 30]
        counts = sim.manager.counts
        assert 0 < counts.accepted < counts.drafted
        assert sum(rows) - len(rows) > counts.drafted


@pytest.mark.parametrize("tokens", [9, 10, 11])
@simulated()
async def test_who_is_preempted_reads_again_what_has_left_no_state(tokens: int) -> None:
    """Whenever that is: of a prediction that is wrong in every eighth token, five drafts at a time are accepted."""
    given: dict[str, Any] = {"ram": 100, "preemption": "on", "positions": 1024}
    async with recurrent(more=0, drafts=7, speculate=Proposer.NGRAM, **given) as sim:
        right = sim.model.continuation(text(30, 1), 40)
        prediction = tuple(token if place % 8 else token + 1 for place, token in enumerate(right))
        async with trio.open_nursery() as nursery:
            story = sim.expect(ask("old", text(30, 1), max_tokens=40, priority=1, prediction=prediction))
            nursery.start_soon(sim.client, story.asked)
            await until(lambda: len(story.events) > tokens)
            await sim.client(ask("new", text(90, 2), max_tokens=5))
        assert sim.manager.preemption.resumes == 1
        assert story.finished().timings.draft_n_accepted >= 15


@simulated()
async def test_an_end_among_accepted_drafts_leaves_the_state_there() -> None:
    async with recurrent(drafts=7, speculate=Proposer.DRAFT, accuracy=1.0) as sim:
        story = await sim.client(
            ask("a", text(60, 1), max_tokens=30, end_ids=(sim.model.continuation(text(60, 1), 20)[-1],))
        )
        whole = sim.whole(story)
        assert len(whole) < 60 + 30
        again = await sim.client(ask("again", [*whole, *text(9, 2)]))
        assert again.finished().cached_tokens == 60 + 19


BURST = 5.5 * STEP  # in which five steps are told of together


@simulated(seeds=4)
async def test_a_burst_leaves_the_state_behind_its_last_row() -> None:
    async with recurrent(burst_seconds=BURST) as sim:
        for n in range(1, 5):
            story = await sim.client(ask(f"r{n}", text(30, n), max_tokens=20 + n))
            assert story.tokens() == sim.model.continuation(text(30, n), 20 + n)
            assert lengths(sim)[-1] == 30 + 19 + n


@simulated(seeds=4)
async def test_a_stop_string_that_is_noticed_a_step_late_leaves_the_state_of_before() -> None:
    async with recurrent(burst_seconds=1.5 * STEP) as sim:
        await sim.client(ask("first", text(30, 9), max_tokens=6))
        output = sim.model.continuation(text(30, 1), 30)
        spelt = sim.engine.model.tokenizer.decode(output[:12])
        stop = StopAutomaton((spelt[-3:],))
        story = await sim.client(ask("a", text(30, 1), max_tokens=30, stop=stop))
        kept = sim.manager.table.slot(0).tokens
        assert len(story.tokens(all=True)) < 30
        assert lengths(sim)[-1] == len(kept) == 30 + len(story.tokens(all=True)) - 1


@pytest.mark.parametrize("step", [9, 10, 11, 13, 14])
@pytest.mark.parametrize("fault", [DeviceError, NotFinite])
@simulated(seeds=2)
async def test_a_fault_in_a_burst_costs_no_state(fault: type[Fault], step: int) -> None:
    """The steps before it are kept, and the one that failed is run again from what it went on from."""
    chaos = Chaos(FaultPlan((fault(step=step),)))  # type: ignore[call-arg]
    async with recurrent(chaos=chaos, burst_seconds=BURST) as sim:
        await sim.client(ask("first", text(9, 3), max_tokens=5))
        story = await sim.client(ask("a", text(30, 1), max_tokens=20))
        assert sim.fired
        assert story.tokens() == sim.model.continuation(text(30, 1), 20)


@simulated()
async def test_what_failed_has_no_state_and_its_neighbour_keeps_its_own() -> None:
    async with recurrent(slots=2) as sim:
        sim.faults.raise_on.add(CULPRIT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, ask("good", text(60, 1), max_tokens=20))
            await until(lambda: bool(sim.manager.table.slot(0).states))
            await sim.client(ask("bad", [*text(60, 2), CULPRIT]))
            assert lengths(sim, 1) == []
        assert lengths(sim, 0)[-1] == 60 + 19


@simulated()
async def test_without_buffers_there_are_no_states() -> None:
    async with open_kv_simulation(slots=1, ram=0) as sim:
        await sim.client(ask("a", LONG[: BLOCK_TOKENS + 5]))
        assert sim.manager.table.states is None
        assert lengths(sim) == []
