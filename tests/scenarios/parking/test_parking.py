"""Preemption: the less important leaves its slot, its stream pauses, and it goes on with the tokens of a solo run.

Tokens are held to the solo run by I4, at each step and at the end of every simulation.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.core.life import State
from actors.core.receipts import CancelReason
from actors.parking.victims import MAX_PARKS
from runtime.errors import DeviceLost
from runtime.kv.blocks import BLOCK_TOKENS, tail_key
from runtime.loading.served import Proposer
from runtime.step.transfer import Load
from runtime.testing.faults import Chaos, FaultPlan, ThreadDeath
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import VOCABULARY, Story, ask, simulated, windowed
from tests.sim.grammars import Rule


async def low(
    sim: KVSimulation, clients: trio.Nursery, *, tokens: int = 60, length: int = 150, **more: object
) -> Story:
    """Begin a long, unimportant answer, and return when ten tokens of it are there."""
    story = sim.expect(ask("low", text(length, 1), max_tokens=tokens, priority=10, **more))
    clients.start_soon(sim.client, story.asked)
    await until(lambda: len(story.events) >= 10)
    return story


def has_read(story: Story, events: int) -> bool:
    """Whether a client has read so many events, or all."""
    return len(story.events) > events or story.ended


async def high(sim: KVSimulation, name: str = "high", *, tokens: int = 5, seed: int = 2) -> Story:
    """Ask for something important, and wait for it."""
    return await sim.client(ask(name, text(40, seed), max_tokens=tokens))


async def parked(sim: KVSimulation, clients: trio.Nursery) -> Story:
    """Begin an unimportant answer, ask for something important, and return when the first is parked for it."""
    story = await low(sim, clients)
    clients.start_soon(high, sim, "high")
    await until(lambda: sim.manager.statistics().parked == 1)
    return story


@simulated(seeds=3)
async def test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was() -> None:
    async with open_kv_simulation(slots=1) as sim:
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
        assert sim.ram.pinned == 0


@simulated(seeds=3)
@pytest.mark.parametrize("reuses", [True, False])
async def test_who_is_parked_before_its_first_row_reuses_kv_only_if_it_may(reuses: bool) -> None:
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


@simulated()
async def test_the_last_tokens_that_are_no_block_are_restored_too() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            await low(sim, clients)
            await high(sim)
            slot = sim.manager.table.slot(0)
            await until(lambda: sim.manager.statistics().resumes == 1 and len(slot.tokens) > 150)
            tail = [one for one in sim.watch.transfers if isinstance(one, Load)][-1]
            rows = slot.tokens[tail.start : tail.start + tail.data.shape[-2]]
            assert tail_key(slot.tokens.keys[1], rows, 0) in slot.stands_on, "were it wrong, so would be what follows"


@simulated()
async def test_equals_never_park_each_other() -> None:
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
async def test_who_lacks_room_parks_one_although_a_slot_is_free() -> None:
    async with open_kv_simulation(slots=3, context=512, positions=512) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, tokens=100, length=250)
            await sim.client(ask("high", text(300, 2), max_tokens=20))
        assert sim.manager.statistics().parks == 1
        assert len(story.tokens()) == 100


@simulated(seeds=3)
async def test_who_is_parked_again_before_its_first_row_has_its_last_tokens_copied_again() -> None:
    """It gets its own slot back, of whose last tokens, which were restored, nobody may use a part."""
    async with open_kv_simulation(slots=4, context=1024, positions=768, piece=1, block_seconds=0.01) as sim:
        async with trio.open_nursery() as clients:
            stories = [sim.expect(ask(f"low{n}", text(250, n), max_tokens=60, priority=10)) for n in range(2)]
            for story in stories:
                clients.start_soon(sim.client, story.asked)
            await until(lambda: all(len(story.events) >= 10 for story in stories))
            await sim.client(ask("high", text(600, 2), max_tokens=2))
            await until(lambda: sim.manager.statistics().resumes == 2)
            again = sim.expect(ask("again", text(600, 3), max_tokens=2))
            clients.start_soon(sim.client, again.asked)
            await until(lambda: sim.manager.statistics().parks == 4)
            again.connection.cancel()
            again.left_at = trio.current_time()
        assert sim.manager.statistics().resumes == 4
        assert [sim.rows(story) for story in stories] == [250, 250], "nothing is computed twice"


@simulated()
async def test_a_prompt_that_is_read_is_parked_and_read_on() -> None:
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
async def test_nobody_is_parked_more_often_than_that() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, tokens=200)
            for number in range(MAX_PARKS + 3):
                await high(sim, f"high{number}", tokens=2, seed=number + 2)
                await until(partial(has_read, story, len(story.events) + 5))
        assert sim.manager.statistics().parks == MAX_PARKS
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


@pytest.mark.parametrize("speculate", [Proposer.NGRAM, Proposer.DRAFT, Proposer.MTP])
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
async def test_a_hang_up_while_parked_ends_it_at_once() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await parked(sim, clients)
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
async def test_a_deadline_passes_while_parked() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, timeout=0.2)
            await high(sim, tokens=100)
            assert story.ended
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "parked")


@simulated()
async def test_a_shutdown_ends_who_is_parked() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await parked(sim, clients)
            await sim.engine.drain(grace=0.0)
        assert story.receipt.reason is CancelReason.SHUTDOWN


@simulated()
async def test_who_is_parked_outlives_the_device() -> None:
    async with open_kv_simulation(slots=1, chaos=Chaos(FaultPlan((ThreadDeath(step=40),)))) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            urgent = await high(sim, tokens=100)
        assert isinstance(urgent.failed(), DeviceLost)
        assert len(story.tokens()) == 60
        assert sim.rows(story) == 150, "its KV is in host memory"


@simulated()
async def test_what_the_memory_has_lost_is_computed_again() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            story = await parked(sim, clients)
            await until(lambda: not sim.cache.waiting.any_of(0))
            sim.evict(ram=True, slots=False)
        assert len(story.tokens()) == 60
        assert sim.rows(story) > 150


@simulated()
async def test_nobody_is_parked_whom_the_memory_cannot_take() -> None:
    async with open_kv_simulation(slots=1, ram=2) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=150)
            urgent = await high(sim)
        assert sim.manager.statistics().parks == 0
        assert story.times[-1] < urgent.times[0]


@simulated()
async def test_what_is_pinned_is_not_let_go_for_others() -> None:
    async with open_kv_simulation(slots=1, ram=8) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients)
            await sim.client(ask("high", text(600, 2), max_tokens=5))
        assert sim.rows(story) == 150


@simulated()
async def test_the_views_tell_of_it() -> None:
    async with open_kv_simulation(slots=1) as sim:
        async with trio.open_nursery() as clients:
            await parked(sim, clients)
            status = sim.engine.requests()[0]
            assert (status.states, status.slots, status.parks) == ((State.PARKED,), (None,), 1)
            await trio.sleep(0.01)
            assert sim.engine.requests()[0].parked_seconds > status.parked_seconds


@simulated()
async def test_who_was_parked_is_the_first_of_those_who_waited_as_long() -> None:
    """Five levels ahead: of two classes that differ by less, the worse one's goes first that was parked."""
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


@simulated(seeds=2)
async def test_the_last_tokens_of_who_has_gone_are_not_kept() -> None:
    """Its client leaves while its blocks still wait to be copied, and while they are copied."""
    for wait in (0.0, 0.015, 0.025, 0.035, 0.045):
        async with open_kv_simulation(slots=1, piece=1, block_seconds=0.01) as sim:
            async with trio.open_nursery() as clients:
                story = await low(sim, clients, length=150)
                clients.start_soon(sim.client, ask("high", text(40, 2), max_tokens=5))
                await until(lambda: sim.manager.statistics().parked == 1)
                await trio.sleep(wait)
                story.connection.cancel()
                story.left_at = trio.current_time()
            await sim.settle()
            blocks = [block for key in sim.ram if (block := sim.ram.get(key)) is not None]
            assert {len(block.token_ids) for block in blocks} == {BLOCK_TOKENS}


@simulated(seeds=2)
async def test_while_it_is_copied_the_less_important_generate_after_every_third_piece_only() -> None:
    """Four pieces of it: its neighbour has a turn after three, and then with the first rows of the important one."""
    async with open_kv_simulation(slots=2, piece=1, block_seconds=0.01, chunk_tokens=64) as sim:
        async with trio.open_nursery() as clients:
            neighbour = sim.expect(ask("neighbour", text(20, 3), max_tokens=60, priority=10))
            clients.start_soon(sim.client, neighbour.asked)
            await until(lambda: len(neighbour.events) >= 3)
            await low(sim, clients, length=4 * BLOCK_TOKENS - 1)
            begun = len(sim.steps)
            await high(sim)
        during = [{run.owner[0] for run in step.runs} for step in sim.steps[begun:]]
        first = next(number for number, owners in enumerate(during) if "high" in owners)
        assert sum("low" not in owners for owners in during[:first]) == 1, during[: first + 1]


@simulated(seeds=2)
async def test_it_does_not_go_on_before_what_it_had_was_copied() -> None:
    """The important one hangs up at once, and its slot is free while the other's blocks still wait there."""
    async with open_kv_simulation(slots=1, piece=1, block_seconds=0.01) as sim:
        async with trio.open_nursery() as clients:
            story = await low(sim, clients, length=300)
            urgent = sim.expect(ask("high", text(40, 2), max_tokens=5))
            clients.start_soon(sim.client, urgent.asked)
            await until(lambda: sim.manager.statistics().parked == 1)
            urgent.connection.cancel()
            urgent.left_at = trio.current_time()
        assert sim.manager.statistics().resumes == 1
        assert sim.rows(story) == 300, "nothing is computed twice"
