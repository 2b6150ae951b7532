"""Preemption: the less important leaves its slot, its stream pauses, and it goes on with the tokens of a solo run.

Tokens are held to the solo run by I4, at each step and at the end of every simulation.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeAlias

import pytest
import trio

from actors.core.life import State
from actors.core.receipts import CancelReason
from actors.scheduling.victims import MAX_PREEMPTIONS
from runtime.errors import DeviceLost
from runtime.kv.blocks import tail_key
from runtime.loading.served import DRAFT_MODELS, Proposer
from runtime.step.transfer import Load
from runtime.testing.faults import Chaos, FaultPlan, ThreadDeath
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import VOCABULARY, ask, simulated, windowed
from tests.scenarios.preemption.stories import has_read, high, low, preempted
from tests.sim.grammars import Rule

in_a_retained_place: Final = partial(open_kv_simulation, slots=1)
copied: Final = partial(open_kv_simulation, slots=1, context=256, positions=256)  # no room for two
Opening: TypeAlias = "partial[AbstractAsyncContextManager[KVSimulation]]"


@simulated(seeds=3)
@pytest.mark.parametrize("room", [in_a_retained_place, copied], ids=["in a retained place", "copied"])
async def test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was(room: Opening) -> None:
    async with room() as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            before = len(story.events)
            urgent = await high(sim)
            assert len(story.events) <= before + 2, "it pauses meanwhile"
        assert len(story.tokens()) == 60
        assert urgent.times[-1] < story.times[-1]
        figures = sim.manager.statistics()
        assert (figures.parks, figures.resumes, figures.parked) == (1, 1, 0)
        assert sim.rows(story) == 150, "nothing is computed twice"
        assert any(isinstance(one, Load) for one in sim.watch.transfers) == (room is copied)
        assert sim.ram.pinned == 0


@simulated(seeds=3)
@pytest.mark.parametrize("reuses", [True, False])
async def test_who_is_preempted_before_its_first_row_reuses_kv_only_if_it_may(reuses: bool) -> None:
    async with open_kv_simulation(slots=2, step_seconds=lambda rows: 0.02) as sim:
        async with trio.open_nursery() as clients:
            other = sim.expect(ask("other", text(20, 3), max_tokens=30))
            clients.start_soon(sim.client, other.asked)
            await until(lambda: len(other.events) >= 3)
            story = sim.expect(ask("low", text(150, 1), max_tokens=5, priority=10, cache_prompt=reuses))
            clients.start_soon(sim.client, story.asked)
            await until(lambda: sim.manager.statistics().leased == 2)  # while a step runs
            await sim.client(ask("high", text(150, 1)[:100], max_tokens=5))
        assert sim.manager.statistics().parks == 1
        rows = sum(run.rows for step in sim.steps for run in step.runs if run.owner[0] == "low")
        assert story.finished().completion_tokens == 5
        assert rows == (50 if reuses else 150) + 4


@simulated(seeds=3)
async def test_who_is_to_read_its_prompt_anew_reuses_nothing_where_it_comes_back_either() -> None:
    async with open_kv_simulation(slots=2, step_seconds=lambda rows: 0.02) as sim:
        async with trio.open_nursery() as clients:
            other = sim.expect(ask("other", text(150, 1), max_tokens=20))
            clients.start_soon(sim.client, other.asked)
            await until(lambda: len(other.events) >= 3)
            await sim.client(ask("before", text(150, 1), max_tokens=1))
            (free,) = sim.manager.table.free
            sim.model.curse(free.pages.place(140), "raises")  # in no page that the other has
            story = sim.expect(ask("low", text(150, 1), max_tokens=5, priority=10))
            clients.start_soon(sim.client, story.asked)
            await until(lambda: any(step.failed for step in sim.steps))  # once more alone, and then it is read anew
            await sim.client(ask("high", text(40, 2), max_tokens=60))
            assert other.ended
        assert (sim.manager.statistics().parks, sim.manager.statistics().resumes) == (1, 1)
        assert story.finished().cached_tokens == 0, "what was cached is under suspicion"
        assert len(story.tokens()) == 5


@simulated()
async def test_the_last_tokens_that_are_no_block_are_restored_too() -> None:
    async with copied() as sim:
        async with trio.open_nursery() as clients:
            await low(sim, clients)
            await high(sim)
            slot = sim.manager.table.slot(0)
            await until(lambda: sim.manager.statistics().resumes == 1 and len(slot.tokens) > 150)
            tail = [one for one in sim.watch.transfers if isinstance(one, Load)][-1]
            rows = slot.tokens[tail.start : tail.start + tail.data.shape[-2]]
            assert tail_key(slot.tokens.keys[1], rows, 0) in slot.stands_on, "were it wrong, so would be what follows"


@simulated()
async def test_equals_never_preempt_each_other() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            other = await sim.client(ask("other", text(40, 2), max_tokens=3, priority=10))
        assert story.times[-1] < other.times[0]
        assert sim.manager.statistics().parks == 0


@simulated()
async def test_without_preemption_the_important_waits() -> None:
    async with open_kv_simulation(slots=1, preemption="off") as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            urgent = await high(sim)
        assert story.times[-1] < urgent.times[0]


@simulated()
async def test_the_least_important_goes_and_of_equals_the_last_to_come() -> None:
    async with open_kv_simulation(slots=3) as sim:
        async with trio.open_nursery() as clients:
            for number, priority in enumerate([5, 9, 9]):
                asked = ask(f"r{number}", text(30, number), max_tokens=60, priority=priority)
                clients.start_soon(sim.client, asked)
                await trio.sleep(0.05)
            await high(sim, seed=7)
            assert [status.parks for status in sim.engine.requests()] == [0, 0, 1]


@simulated()
async def test_who_lacks_room_preempts_one_although_a_slot_is_free() -> None:
    async with open_kv_simulation(slots=3, context=512, positions=512) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, tokens=100, length=250)
            await sim.client(ask("high", text(300, 2), max_tokens=20))
        assert sim.manager.statistics().parks == 1
        assert len(story.tokens()) == 100


@simulated()
async def test_a_prompt_that_is_read_is_preempted_and_read_on() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = sim.expect(ask("low", text(700, 1), max_tokens=4, priority=10))
            clients.start_soon(sim.client, story.asked)
            await until(lambda: sum(len(slot.tokens) for slot in sim.manager.table) >= 300)
            await high(sim)
            assert not story.events
        assert sim.rows(story) == 700, "nothing is computed twice"
        assert story.finished().cached_tokens == 0, "what it had itself was not cached"


@simulated(seeds=2)
async def test_nobody_is_preempted_more_often_than_that() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, tokens=200)
            for number in range(MAX_PREEMPTIONS + 3):
                await high(sim, f"high{number}", tokens=2, seed=number + 2)
                await until(partial(has_read, story, len(story.events) + 5))
        assert sim.manager.statistics().parks == MAX_PREEMPTIONS
        assert len(story.tokens()) == 200


@simulated(seeds=2)
async def test_beside_an_endless_stream_of_the_important_it_ends() -> None:
    async with open_kv_simulation(slots=1, queue=400, ageing_seconds=0.05) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, tokens=20)
            for number in range(150):
                clients.start_soon(sim.client, ask(f"r{number}", text(20, number + 2), max_tokens=5))
                await trio.sleep(0.02)
        last = max(one.times[-1] for one in sim.stories.values() if one is not story)
        assert story.times[-1] < last


@pytest.mark.parametrize("speculate", [Proposer.NGRAM, *DRAFT_MODELS, Proposer.MTP])
def test_who_drafts_goes_on_drafting(speculate: Proposer) -> None:
    @simulated(seeds=3)
    async def check() -> None:
        vocabulary = 5 if speculate is Proposer.NGRAM else VOCABULARY
        async with open_kv_simulation(slots=1, speculate=speculate, draft_tokens=3, vocabulary=vocabulary) as sim:
            async with trio.open_nursery() as clients:
                story = await low(sim, clients)
                await high(sim)
            assert sim.manager.statistics().resumes == 1
            assert story.finished().timings.draft_n_accepted > 0

    check()


@simulated(seeds=2)
async def test_a_grammar_goes_on_where_it_was() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, grammar=Rule(3, 40, None).grammar)
            await high(sim)
        assert sim.manager.statistics().resumes == 1
        assert len(story.tokens()) == 40


@simulated(seeds=2)
async def test_windowed_layers_go_on_with_what_they_see() -> None:
    async with open_kv_simulation(slots=1, rings=windowed(70, 128)) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=300)
            await high(sim)
        assert sim.manager.statistics().resumes == 1
        assert sim.rows(story) == 300, "nothing is computed twice"


# --- those who end meanwhile ------------------------------------------------------------------------------------------


@simulated()
async def test_a_hang_up_while_preempted_ends_it_at_once() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await preempted(sim, clients)
            story.connection.cancel()
            story.left_at = left = trio.current_time()
            await until(lambda: story.ended)
            assert trio.current_time() == pytest.approx(left, abs=0.001), "not at the end of a step"
            assert not sim.stories["high"].ended
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DISCONNECT, "parked")
        assert (story.receipt.parks, story.receipt.slot_freed_at) == (1, None)
        assert story.receipt.parked_seconds > 0
        assert sim.ram.pinned == 0


@simulated()
async def test_a_deadline_passes_while_preempted() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, timeout=0.2)
            await high(sim, tokens=100)
            assert story.ended
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "parked")


@simulated()
async def test_a_shutdown_ends_who_is_preempted() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await preempted(sim, clients)
            await sim.engine.drain(grace=0.0)
        assert story.receipt.reason is CancelReason.SHUTDOWN


@simulated()
@pytest.mark.parametrize("room", [in_a_retained_place, copied], ids=["in a retained place", "copied"])
async def test_who_is_preempted_outlives_the_device(room: Opening) -> None:
    async with room(chaos=Chaos(FaultPlan((ThreadDeath(step=40),)))) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            urgent = await high(sim, tokens=100)
        assert isinstance(urgent.failed(), DeviceLost)
        assert len(story.tokens()) == 60
        is_kept = sim.rows(story) == 150
        assert is_kept == (room is copied), "its KV is in host memory, or was on the device only"


@simulated()
async def test_what_the_memory_has_lost_is_computed_again() -> None:
    async with copied() as sim:
        async with trio.open_nursery() as clients:
            story = await preempted(sim, clients)
            await until(lambda: len(sim.ram) > 0 and not len(sim.cache.waiting))
            sim.evict(ram=True, slots=False)
        assert len(story.tokens()) == 60
        assert sim.rows(story) > 150


@simulated()
async def test_nobody_is_preempted_whom_the_memory_cannot_take() -> None:
    async with open_kv_simulation(slots=1, ram=2) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=150)
            urgent = await high(sim)
        assert sim.manager.statistics().parks == 0
        assert story.times[-1] < urgent.times[0]


@simulated()
async def test_what_is_pinned_is_not_let_go_for_others() -> None:
    async with open_kv_simulation(slots=1, ram=8, context=640, positions=640) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            await sim.client(ask("high", text(600, 2), max_tokens=5))
        assert sim.rows(story) == 150


@simulated()
async def test_the_views_tell_of_it() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            await preempted(sim, clients)
            status = sim.engine.requests()[0]
            assert (status.states, status.slots, status.parks) == ((State.PREEMPTED,), (None,), 1)
            await trio.sleep(0.01)
            assert sim.engine.requests()[0].parked_seconds > status.parked_seconds


@simulated()
async def test_who_was_preempted_is_the_first_of_those_who_waited_as_long() -> None:
    """Five levels ahead: of two classes that differ by less, the worse one's goes first that was preempted."""
    async with open_kv_simulation(slots=1, ageing_seconds=1000.0) as sim:
        async with trio.open_nursery() as clients:
            story = sim.expect(ask("low", text(150, 1), max_tokens=60, priority=3))
            clients.start_soon(sim.client, story.asked)
            await until(lambda: len(story.events) >= 10)
            clients.start_soon(high, sim, "high")
            await until(lambda: sim.manager.statistics().parked == 1)
            clients.start_soon(sim.client, ask("middle", text(30, 5), max_tokens=40, priority=3))
            later = sim.expect(ask("later", text(30, 6), max_tokens=5, priority=1))
            clients.start_soon(sim.client, later.asked)
            await until(lambda: sim.manager.statistics().resumes == 1)
            assert not later.events
