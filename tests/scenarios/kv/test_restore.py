"""Prompts served from KV that is already there: exact, whatever it comes from, and only what is new is computed.

That every token is exact is checked for every request of every test here, by `Simulation.check_exact`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

import pytest
import trio
import trio.testing

from actors.core.generation import FinishReason
from actors.core.lease import Lease, Move
from actors.core.slots import Slot, SlotState
from actors.kv.restore import MIN_GAIN, LiveSource, next_source, restore
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.token_chain import TokenChain
from runtime.step.transfer import Copy, Load, Save
from tests.fakes.kv_simulation import ROOT, KVSimulation, fresh, open_kv_simulation, open_settled_disk, text, until
from tests.fakes.simulation import Story, ask, run, simulated

if TYPE_CHECKING:
    from pathlib import Path

PIECE = 2  # blocks, as `open_kv_simulation` says
SYSTEM = text(200, 1)
OTHER = text(150, 2)


def blocks_of(tokens: int) -> int:
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS


# --- each source ------------------------------------------------------------------------------------------------------

SOURCES = ["resident", "live", "ram", "disk", "resident, ram, disk", "live, ram, disk", "ram, disk"]


async def warm(sim: KVSimulation, source: str) -> tuple[list[int], int]:
    """Bring it about that a prompt's beginning is to be had from `source`; the beginning, and how much of it is."""
    first = await sim.client(ask("first", SYSTEM + text(250, 3), max_tokens=8))
    conversation = sim.whole(first)
    committed = len(conversation) - 1  # the last token has not been read
    await sim.settle()
    if "resident" in source or "live" in source:
        (slot,) = [slot for slot in sim.manager.table.free if len(slot.tokens) == committed]
        if "ram" not in source:
            return conversation, committed
        slot.tokens.truncate(150)
        sim.evict(slots=False, ram=True, blocks=range(4, 20))
        if "live" in source:
            for key in sim.cache.keys(conversation)[:2]:
                sim.ram.drop(key)
                sim.disk.drop([key])
    else:
        sim.evict()
        if source == "disk":
            sim.evict(ram=True)
        if source == "ram, disk":
            sim.evict(ram=True, blocks=range(3, 20))
    return conversation, blocks_of(committed)


@pytest.mark.parametrize("source", SOURCES)
@simulated(seeds=3)
async def test_only_what_is_new_is_computed(source: str, tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=2, disk=disk) as sim, trio.open_nursery() as nursery:
            conversation, there = await warm(sim, source)
            expected = there
            if "live" in source:  # another agent goes on from it, and is still at it
                nursery.start_soon(sim.client, ask("holder", [*conversation, 7], max_tokens=200))
                await trio.sleep(0.1)
                if source == "live":
                    expected = len(conversation)
            before = dict(sim.cache.hits)
            story = await sim.client(ask("again", conversation + text(70, 4), max_tokens=10))
            nursery.cancel_scope.cancel()
            assert len(story.tokens()) == 10
            finished = story.finished()
            assert finished.cached_tokens >= expected - (MIN_GAIN if "live" in source else 0)
            assert finished.cached_tokens <= len(conversation) + 1
            assert sim.rows(story) == len(story.asked.prompts[0]) - finished.cached_tokens
            assert (finished.timings.cache_n, finished.timings.prompt_n) == (finished.cached_tokens, sim.rows(story))
            grown = {name for name, tokens in sim.cache.hits.items() if tokens > before[name]}
            if source != "live, ram, disk":
                assert grown == set(source.split(", "))
            sim.check_disk()


# --- cancels ----------------------------------------------------------------------------------------------------------


async def story_of_a_cancel(source: str, folder: Path, moment: float | None) -> float:
    """A client that hangs up at that moment, if at any, and its retry; how long the client was there."""
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=2, disk=disk) as sim, trio.open_nursery() as nursery:
            conversation, _ = await warm(sim, source)
            if "live" in source:
                nursery.start_soon(sim.client, ask("holder", [*conversation, 7], max_tokens=300))
                await trio.sleep(0.1)
            tokens = conversation + text(200, 4)
            start = trio.current_time()
            victim = await sim.client(
                ask("victim", tokens, max_tokens=6), hang_up_at=start + (1e6 if moment is None else moment)
            )
            took = trio.current_time() - start
            if moment is not None:
                kept = sum(receipt.cached_tokens + receipt.kept_tokens for receipt in victim.receipts)
                other = await sim.client(ask("other", text(70, 5)))
                assert other.finished().cached_tokens == 0
                retry = await sim.client(ask("retry", [*tokens[:-20], *text(30, 6)], max_tokens=6))
                new = len(tokens) + 10 - min(kept, len(tokens) - 20)
                assert sim.rows(retry) < new + BLOCK_TOKENS, "something was lost"
                assert len(retry.tokens()) == 6
            nursery.cancel_scope.cancel()
            sim.check_disk()
    return took


@pytest.mark.parametrize("source", SOURCES)
def test_a_cancel_at_any_moment_loses_nothing(source: str, tmp_path: Path) -> None:
    took = run(partial(story_of_a_cancel, source, tmp_path / "0", None))
    moments = 12
    for n in range(moments):
        folder = tmp_path / str(n + 1)
        run(partial(story_of_a_cancel, source, folder, took * n / moments), seed=n)


@pytest.mark.parametrize("phase", ["queued", "save", "read", "load", "prefill", "decode"])
@simulated()
async def test_a_cancel_in_each_phase(phase: str, tmp_path: Path) -> None:
    """The moments are found, not guessed: each phase is met by name."""
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=1, disk=disk, read_seconds=0.01) as sim, trio.open_nursery() as nursery:
            first = await sim.client(ask("first", SYSTEM + text(250, 3), max_tokens=8))
            await sim.settle()
            sim.evict(ram=True)
            if phase == "save":  # its blocks are resident, and in no tier yet
                await sim.client(ask("resident", text(300, 8), max_tokens=2))
                assert sim.cache.unsaved(0)
            if phase == "queued":
                nursery.start_soon(sim.client, ask("holder", text(20, 9), max_tokens=20))
                await trio.sleep(0.001)
            victim = sim.expect(ask("victim", sim.whole(first) + text(100, 4), max_tokens=50))
            nursery.start_soon(sim.client, victim.asked)
            await until(lambda: _in_phase(sim, victim, phase))
            victim.connection.cancel()
            await until(lambda: victim.ended)
            assert victim.receipt.phase == (phase if phase in ("queued", "decode") else "prefill")
            retry = await sim.client(ask("retry", victim.asked.prompts[0], max_tokens=10))
            got = victim.receipt.cached_tokens + victim.receipt.kept_tokens
            assert sim.rows(retry) <= len(victim.asked.prompts[0]) - min(got, 558) + BLOCK_TOKENS
            if phase == "save":
                again = await sim.client(ask("again", text(300, 8), max_tokens=2))
                assert again.finished().cached_tokens == blocks_of(299), "what was displaced is lost"


def _in_phase(sim: KVSimulation, story: Story, phase: str) -> bool:
    status = next((request for request in sim.engine.requests() if request.id == story.asked.id), None)
    lease = next((lease for lease in sim.manager._leases.values() if lease.request_id == story.asked.id), None)
    if status is None or status.states[0].value == "queued" or lease is None:
        return phase == "queued" and status is not None
    match phase:
        case "save":
            return sim.watch.is_moving and lease.cached == 0
        case "read":
            return lease.pending is None and not sim.watch.is_moving and lease.cached == 0
        case "load":
            return sim.watch.is_moving and lease.cached > 0
        case "prefill":
            return lease.committed > 0 and not story.events
        case "decode":
            return len(story.events) > 3
    return False


# --- conversations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ram", [0, 1000])
@simulated()
async def test_each_turn_of_a_chat_computes_what_is_new(ram: int, tmp_path: Path) -> None:
    """With somebody else between the turns, on the only slot, to within a block; without, to the token."""
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=1, ram=ram, disk=disk) as sim:
            conversation, stranger = SYSTEM, 100
            for turn in range(6):
                before = len(conversation)
                conversation = conversation + text(45, 10 + turn)
                story = await sim.client(ask(f"turn {turn}", conversation, max_tokens=9))
                known = 0 if turn == 0 else before - 1
                if turn % 2 == 0:
                    known = blocks_of(known)
                assert story.finished().cached_tokens == known
                assert sim.rows(story) == len(conversation) - known
                conversation = sim.whole(story)
                if turn % 2:
                    stranger += 1
                    await sim.client(ask(f"stranger {turn}", text(200, stranger)))
            sim.check_disk()


@simulated()
async def test_a_chat_goes_on_after_a_restart(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(disk=disk) as sim:
            first = await sim.client(ask("first", text(300, 1)))
            truth, conversation = sim.truth, sim.whole(first)
        assert len(disk.tier) == 4, "what was in a slot at the end has not been kept"
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(disk=disk, truth=truth) as sim:
            again = await sim.client(ask("again", conversation + text(10, 2)))
            assert again.finished().cached_tokens == 256


@simulated()
async def test_a_changed_tail_computes_the_tail(tmp_path: Path) -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("first", SYSTEM + OTHER))
        there = await sim.client(ask("resident", SYSTEM + text(60, 4)))
        assert there.finished().cached_tokens == len(SYSTEM)
        await sim.client(ask("stranger", text(250, 5)))
        back = await sim.client(ask("ram", SYSTEM + OTHER[:40] + text(60, 6)))
        assert back.finished().cached_tokens == blocks_of(len(SYSTEM) + 40)


@simulated()
async def test_the_same_prompt_again_computes_its_last_token() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("first", SYSTEM[:192]))
        resident = await sim.client(ask("resident", SYSTEM[:192]))
        assert (resident.finished().cached_tokens, sim.rows(resident)) == (191, 1)
        await sim.client(ask("stranger", text(250, 5)))
        ram = await sim.client(ask("ram", SYSTEM[:192]))
        assert (ram.finished().cached_tokens, sim.rows(ram)) == (128, 64)


@simulated()
async def test_without_cache_prompt_nothing_is_read_but_what_is_computed_is_kept() -> None:
    async with open_kv_simulation(slots=2) as sim:
        await sim.client(ask("first", SYSTEM))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, ask("holder", SYSTEM, max_tokens=100))
            await trio.sleep(0.05)
            alone = await sim.client(ask("alone", SYSTEM + OTHER, cache_prompt=False))
            assert (alone.finished().cached_tokens, sim.rows(alone)) == (0, len(SYSTEM + OTHER))
            nursery.cancel_scope.cancel()
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", SYSTEM + OTHER))
        assert again.finished().cached_tokens == blocks_of(len(SYSTEM + OTHER))


@simulated()
async def test_without_cache_prompt_what_is_resident_is_not_used_either() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("first", SYSTEM))
        alone = await sim.client(ask("alone", SYSTEM, cache_prompt=False))
        assert (alone.finished().cached_tokens, sim.rows(alone)) == (0, len(SYSTEM))


# --- agents that share a prompt ---------------------------------------------------------------------------------------


def computed_in_all(sim: KVSimulation, *stories: Story) -> int:
    return sum(sim.rows(story, index) for story in stories for index in range(len(story.asked.prompts)))


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03])
@simulated(seeds=4)
async def test_a_shared_system_prompt_is_computed_once(delay: float) -> None:
    system = text(500, 1)
    async with open_kv_simulation(slots=3) as sim, trio.open_nursery() as nursery:
        stories = [sim.expect(ask(f"agent {n}", system + text(30, 10 + n), max_tokens=12)) for n in range(3)]
        for n, story in enumerate(stories):
            nursery.start_soon(partial(sim.client, story.asked, arrives=n * delay))
        await until(lambda: all(story.ended for story in stories))
        assert computed_in_all(sim, *stories) < 500 + 3 * 30 + 2 * MIN_GAIN
        assert sim.cache.hits["live"] > 2 * (500 - MIN_GAIN)


@simulated(seeds=4)
async def test_four_answers_to_one_prompt_read_it_once() -> None:
    async with open_kv_simulation(slots=4) as sim:
        story = await sim.client(ask("four", *[text(400, 1)] * 4, max_tokens=6))
        assert computed_in_all(sim, story) < 400 + 3 * (MIN_GAIN + 1)
        assert all(len(story.tokens(index)) == 6 for index in range(4))


@simulated(seeds=2)
async def test_more_answers_than_slots() -> None:
    async with open_kv_simulation(slots=2) as sim:
        story = await sim.client(ask("five", *[text(400, 1)] * 5, max_tokens=6))
        assert computed_in_all(sim, story) < 400 + 4 * (MIN_GAIN + 1)


@pytest.mark.parametrize("moment", [0.001, 0.01, 0.03, 0.06, 0.09, 0.12, 0.2])
@simulated()
async def test_a_follower_goes_on_when_its_leader_is_cancelled(moment: float) -> None:
    system = text(500, 1)
    async with open_kv_simulation(slots=3) as sim, trio.open_nursery() as nursery:
        leader = sim.expect(ask("leader", system + text(30, 10), max_tokens=30))
        followers = [sim.expect(ask(f"f{n}", system + text(40, 11 + n), max_tokens=12)) for n in range(2)]
        nursery.start_soon(partial(sim.client, leader.asked, hang_up_at=moment))
        for story in followers:
            nursery.start_soon(partial(sim.client, story.asked, arrives=0.0005))
        await until(lambda: all(story.ended for story in followers))
        assert all(len(story.tokens()) == 12 for story in followers)
        wasted = sum(receipt.wasted_tokens for receipt in leader.receipts)
        kept = sum(receipt.kept_tokens for receipt in leader.receipts)
        assert kept + wasted <= 560
        # Once, but for the rows that went with the cancel.
        assert kept + computed_in_all(sim, *followers) < 500 + 30 + 30 + 2 * 40 + 2 * MIN_GAIN


@simulated(seeds=6)
async def test_a_chain_of_leaders_that_all_go() -> None:
    """Each follows the one before, and each is cancelled while it leads; the last one still is right, and quick."""
    system = text(600, 1)
    async with open_kv_simulation(slots=5) as sim, trio.open_nursery() as nursery:
        for n in range(4):
            asked = ask(f"leader {n}", system[: 300 + 100 * n] + text(30, 20 + n))
            nursery.start_soon(partial(sim.client, asked, arrives=n * 0.001, hang_up_at=0.02 * (n + 1)))
        last = await sim.client(ask("last", system + text(30, 30), max_tokens=12), arrives=0.005)
        assert len(last.tokens()) == 12
        computed = sum(run.rows for step in sim.steps for run in step.runs if run.computed)
        assert computed - 11 < 600 + 5 * 30 + 5 * MIN_GAIN + 64


@simulated(seeds=4)
async def test_a_leader_that_fails_leaves_its_follower_alone() -> None:
    system = text(300, 1)
    async with open_kv_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        poison = next(token for token in range(390) if token not in system + text(30, 11) + text(30, 12))
        sim.faults.raise_on = {poison}
        leader = sim.expect(ask("leader", [*system, *[poison] * 40]))
        nursery.start_soon(sim.client, leader.asked)
        follower = await sim.client(ask("follower", system + text(30, 12), max_tokens=6), arrives=0.001)
        assert leader.failed().status == 500
        assert len(follower.tokens()) == 6


@pytest.mark.parametrize("why", ["cancelled", "released", "decodes", "has read it", "follower has it", "still queued"])
@simulated(seeds=1)
async def test_nobody_waits_for_a_leader_that_reads_no_more(why: str) -> None:
    async with open_kv_simulation() as sim:
        leader, follower = (Lease(sim.manager, name, 0, TokenChain(ROOT, SYSTEM)) for name in ("leader", "follower"))
        leader.slot, follower.slot = (Slot(n, TokenChain(ROOT), state=SlotState.PREFILL) for n in range(2))
        follower.leaders = [(leader, 128)]
        assert follower.is_led
        match why:
            case "cancelled":
                leader.note_cancel()
            case "released":  # and the slot is somebody else's by now
                leader.released.set()
            case "decodes":
                leader.slot.state = SlotState.DECODE
            case "has read it":
                leader.slot.tokens.extend(SYSTEM[:128])
            case "follower has it":
                follower.slot.tokens.extend(SYSTEM[:128])
            case "still queued":
                leader.slot = None
        assert not follower.is_led


# --- what is displaced ------------------------------------------------------------------------------------------------


@simulated()
async def test_what_is_displaced_is_saved_first() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.client(ask("second", text(100, 2)))  # at once: nothing was saved in between
        assert sim.reach(sim.whole(first)) == 6
        back = await sim.client(ask("back", text(400, 1)))
        assert back.finished().cached_tokens == 384


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.005, 0.007, 0.0121, 0.0181, 0.02])
@simulated()
async def test_what_is_displaced_survives_the_cancel_of_who_displaced_it(moment: float) -> None:
    async with open_kv_simulation(slots=1) as sim:
        tokens = text(400, 1)
        await sim.client(ask("first", tokens, max_tokens=2))
        now = trio.current_time()
        await sim.client(ask("second", tokens[:150] + text(100, 2)), hang_up_at=now + moment)
        now = trio.current_time()
        await sim.client(ask("third", tokens[:80] + text(100, 3)), hang_up_at=now + moment)
        await sim.client(ask("stranger", text(70, 4)))
        back = await sim.client(ask("back", tokens, max_tokens=2))
        assert back.finished().cached_tokens == 384


@simulated()
async def test_what_the_tiers_let_go_meanwhile_is_saved_when_it_is_displaced() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.settle()
        sim.evict(slots=False, ram=True)
        await sim.client(ask("second", text(400, 1)[:200] + text(50, 2)))
        await sim.settle()
        assert sim.reach(sim.whole(first)) == 6


@simulated()
async def test_a_save_that_fails_costs_that_block_only() -> None:
    async with open_kv_simulation(slots=1) as sim:
        sim.faults.fails = lambda transfer: isinstance(transfer, Save) and transfer.start == 192
        await sim.client(ask("first", text(400, 1)))
        await sim.client(ask("second", text(100, 2)))
        back = await sim.client(ask("back", text(400, 1)))
        assert back.finished().cached_tokens == 192


# --- sources that change or fail --------------------------------------------------------------------------------------


@simulated()
async def test_a_copy_that_always_fails_is_not_tried_for_ever_and_the_prompt_computed() -> None:
    async with open_kv_simulation(slots=2, ram=0) as sim, trio.open_nursery() as nursery:
        sim.faults.fails = lambda transfer: isinstance(transfer, Copy)
        nursery.start_soon(sim.client, ask("holder", SYSTEM, max_tokens=60))
        await trio.sleep(0.1)
        with trio.move_on_after(100) as scope:
            story = await sim.client(ask("second", SYSTEM + OTHER))
        assert not scope.cancelled_caught, "it is tried for ever"
        assert story.finished().cached_tokens == 0
        assert sum(isinstance(transfer, Copy) for transfer in sim.watch.transfers) <= 2


@simulated()
async def test_a_load_that_fails_takes_nothing_with_it_that_was_resident() -> None:
    """The block begins before the end of what is resident, and a load that breaks off leaves garbage."""
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.settle()
        (slot,) = sim.manager.table.free
        slot.tokens.truncate(150)
        sim.faults.fails = lambda transfer: isinstance(transfer, Load)
        story = await sim.client(ask("second", sim.whole(first)[:380]))
        assert story.finished().cached_tokens in (128, 150)


@pytest.mark.parametrize("change", ["nothing", "other tokens before", "shorter", "under suspicion"])
@simulated()
async def test_a_source_that_has_changed_when_the_copys_turn_comes_is_not_copied(change: str) -> None:
    """It may hold the same tokens at the same places, but others before them."""
    async with open_kv_simulation(slots=2) as sim:
        shared, same = text(64, 1), text(200, 2)
        await sim.client(ask("source", shared + same))
        source = next(slot for slot in sim.manager.table.free if slot.tokens)
        await sim.settle()
        lease = Lease(sim.manager, "reader", 0, TokenChain(ROOT, shared + same + text(10, 3)))
        lease.slot = Slot(9, TokenChain(ROOT, shared))
        sim.evict(slots=False, ram=True)
        found = next_source(lease, sim.manager.table, sim.cache)
        assert isinstance(found, LiveSource)
        assert (found.slot, found.end) == (source, 64 + PIECE * BLOCK_TOKENS)
        posted: list[Move] = []
        with mock.patch.object(sim.manager, "post", posted.append):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(restore, lease, sim.manager.table, sim.cache)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        (move,) = posted
        before = source.tokens
        source.suspect = change == "under suspicion"
        if change in ("other tokens before", "shorter"):
            source.tokens = TokenChain(ROOT, [*text(64, 4), *same] if change == "other tokens before" else before[:100])
        assert move.still_valid() == (change == "nothing")
        source.tokens, source.suspect = before, False


@simulated()
async def test_a_source_that_is_granted_to_another_while_it_is_copied_hands_on_what_it_stands_on() -> None:
    async with open_kv_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        await sim.client(ask("source", text(800, 1)))
        await sim.settle()
        source = next(slot for slot in sim.manager.table.free if slot.tokens)
        keys = sim.cache.keys(text(800, 1)[:128])
        source.trial, source.stands_on = list(keys), set(keys)
        reader = sim.expect(ask("reader", text(800, 1)[:120] + text(20, 2), max_tokens=30))
        nursery.start_soon(sim.client, reader.asked)
        await until(lambda: sim.watch.is_moving)
        nursery.start_soon(sim.client, ask("newcomer", text(100, 3), max_tokens=30))
        await until(lambda: source.owner == ("newcomer", 0))
        assert sim.watch.is_moving
        (lease,) = [lease for lease in sim.manager._leases.values() if lease.request_id == "reader"]
        assert lease.slot is not None
        await until(lambda: not sim.watch.is_moving)
        assert (lease.cached, lease.slot.trial, lease.slot.stands_on) == (120, keys, set(keys))


@simulated()
async def test_the_neighbours_wait_for_one_piece_of_each_at_most() -> None:
    block_seconds, decode = 0.01, 0.0042
    async with open_kv_simulation(slots=3, block_seconds=block_seconds, chunk_tokens=32) as sim:
        await sim.client(ask("first", text(900, 1), max_tokens=2))
        await sim.client(ask("second", text(900, 2), max_tokens=2))
        await sim.settle()
        sim.evict()
        async with trio.open_nursery() as nursery:
            neighbour = sim.expect(ask("neighbour", text(20, 3), max_tokens=150))
            nursery.start_soon(sim.client, neighbour.asked)
            await trio.sleep(0.05)
            # Two restore fourteen blocks each, and their slots' own blocks are saved before that.
            nursery.start_soon(sim.client, ask("again", text(900, 1), max_tokens=2))
            await sim.client(ask("and again", text(900, 2), max_tokens=2))
            await sim.client(ask("stranger", text(900, 4), max_tokens=2))
        gaps = [later - sooner for sooner, later in zip(neighbour.times, neighbour.times[1:], strict=False)]
        assert len(neighbour.times) == 151
        assert sum(isinstance(transfer, Load) for transfer in sim.watch.transfers) == 28
        assert max(gaps) <= 2 * PIECE * block_seconds + 2 * decode + 0.0032 + 1e-6


# --- hold -------------------------------------------------------------------------------------------------------------


@simulated()
async def test_other_prompts_take_other_slots_while_a_retry_is_expected() -> None:
    async with open_kv_simulation(slots=2, ram=0, hold_seconds=30.0) as sim:
        tokens = text(300, 1)
        victim = await sim.client(ask("victim", tokens), hang_up_at=0.06)
        kept = victim.receipt.kept_tokens
        assert 0 < kept < 300
        for n in range(6):
            await sim.client(ask(f"other {n}", text(200 + n, 10 + n), max_tokens=3))
        await trio.sleep_until(29.0)
        retry = await sim.client(ask("retry", tokens))
        assert retry.finished().cached_tokens == kept


@simulated()
async def test_a_slot_is_not_held_for_ever() -> None:
    async with open_kv_simulation(slots=2, ram=0, hold_seconds=30.0) as sim:
        victim = await sim.client(ask("victim", text(300, 1)), hang_up_at=0.01)
        held = next(slot for slot in sim.manager.table.free if slot.tokens)
        await sim.client(ask("big", text(300, 2)))
        await trio.sleep_until(31.0)
        await sim.client(ask("another", text(300, 3)))
        assert held.tokens[:300] == text(300, 3), "the cheaper slot was not taken"
        assert victim.receipt.kept_tokens


@simulated()
async def test_held_blocks_outlive_pressure_on_ram() -> None:
    tokens = text(300, 1)
    async with open_kv_simulation(slots=1, ram=14, hold_seconds=1000.0) as sim:
        await sim.client(ask("victim", tokens, max_tokens=30), hang_up_at=0.15)
        for n in range(8):
            await sim.client(ask(f"other {n}", text(260, 10 + n), max_tokens=3))
        assert sim.ram.statistics().evictions > 10
        assert sim.reach(tokens) == 4
        retry = await sim.client(ask("retry", tokens))
        assert retry.finished().cached_tokens == 256


@simulated()
async def test_held_blocks_go_once_their_time_is_over() -> None:
    tokens = text(300, 1)
    async with open_kv_simulation(slots=1, ram=8, hold_seconds=10.0) as sim:
        victim = await sim.client(ask("victim", tokens), hang_up_at=0.06)
        assert victim.hung_up
        await trio.sleep(11.0)
        for n in range(4):
            await sim.client(ask(f"other {n}", text(260, 10 + n), max_tokens=3))
        await sim.settle()
        assert sim.reach(tokens) == 0
        assert sim.reach(text(260, 13)) == 4


# --- figures ----------------------------------------------------------------------------------------------------------


@simulated()
async def test_hits_are_counted_in_tokens_by_source() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(200, 1)))
        await sim.client(ask("resident", [*sim.whole(first), 5]))
        await sim.client(ask("stranger", text(200, 2)))
        await sim.client(ask("ram", text(200, 1)))
        assert sim.engine.statistics().manager.cache.hits == {"resident": 203, "live": 0, "ram": 192, "disk": 0}


def test_what_is_asked_for_leaves_the_last_token() -> None:
    """For a prompt of complete blocks, the last block is computed."""

    async def scenario() -> None:
        async with open_kv_simulation(slots=2) as sim:
            await sim.client(ask("first", text(256, 1)))
            await sim.settle()
            sim.evict()
            story = await sim.client(ask("second", text(256, 1)))
            assert story.finished().cached_tokens == 192
            assert story.finished().reason is FinishReason.LENGTH

    run(scenario)


@pytest.mark.parametrize("half_milliseconds", range(0, 60, 3))
@simulated(seeds=1)
async def test_a_slot_that_comes_free_while_kv_is_moved_is_granted_before_the_next_step(half_milliseconds: int) -> None:
    """Seed 436 of `tests.sim`: who waited for it sat out a step.  The watch sees whoever does (I8)."""
    async with open_kv_simulation(slots=2) as sim:
        cached = text(200, 1)
        await sim.client(ask("first", cached))
        await sim.settle()
        sim.evict()
        start = trio.current_time()
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("decodes", text(4, 2), max_tokens=20))
            leaves = partial(sim.client, ask("leaves", cached), hang_up_at=start + half_milliseconds / 2000 + 1e-6)
            clients.start_soon(leaves)
            clients.start_soon(partial(sim.client, ask("waits", text(5, 3)), arrives=start + 1e-7))
