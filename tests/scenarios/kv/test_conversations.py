"""Turns of a chat compute what is new; a slot is held for a retry, for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from tests.fakes.kv_simulation import fresh, open_kv_simulation, open_settled_disk, text
from tests.fakes.simulation import ask, simulated
from tests.scenarios.kv.sources import OTHER, SYSTEM, blocks_of

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
