"""Hanging up on servers that heed it and on one that does not, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.turn import measure_freed, measure_unloaded
from bench.client.scenarios.hangup import Hangup, Retry
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import PLAIN, RUDE, failures_of, turn_on, values_of


async def test_a_server_that_heeds_is_free_within_a_chunk(autojump_clock: MockClock) -> None:
    found = await values_of(Hangup(prompt=2000))
    for case in ("streaming, alone", "not streaming, alone"):
        assert 0 <= found["next request's wait", case] <= 0.064
        assert found["until free", case] == found["next request's wait", case]
        assert 0 <= found["until free, by receipt", case] <= 0.064
    assert found["until free", "streaming, beside 1 stream"] < 0.2


async def test_a_server_that_does_not_is_busy_with_what_nobody_reads(autojump_clock: MockClock) -> None:
    found = await values_of(Hangup(prompt=2000, beside=(0,)), replace(RUDE, slots=1))
    # 60 % of the prompt and 16 tokens are still to come; with one slot the next request waits for all of it.
    assert found["next request's wait", "streaming, alone"] == pytest.approx(0.6 * 2 + 0.16, abs=0.03)
    assert found["until free", "not streaming, alone"] == pytest.approx(0.6 * 2 + 0.16, abs=0.03)
    assert ("until free, by receipt", "streaming, alone") not in found


async def test_waiting_goes_on_until_all_is_as_it_was(autojump_clock: MockClock) -> None:
    """With slots to spare the next request is served soon, but at half the speed until the dead one is done."""
    found = await values_of(Hangup(prompt=2000, beside=(0,)), RUDE)
    assert found["next request's wait", "streaming, alone"] < 0.2
    assert found["until free", "streaming, alone"] > 1


async def test_waiting_is_given_up(autojump_clock: MockClock) -> None:
    async with open_server(RUDE) as server, trio.open_nursery() as nursery:
        turn = replace(turn_on(server), limit=5.0)
        unloaded = await measure_unloaded(turn)
        nursery.start_soon(turn.client.send, RequestSpec(turn.prompts.make(50_000), 1))
        await trio.sleep(0.01)
        freed = await measure_freed(turn, unloaded, trio.current_time())
        nursery.cancel_scope.cancel()
    assert freed.bounded
    assert freed.until_free == pytest.approx(5, abs=0.2)


async def test_only_what_was_given_up_is_a_bound(autojump_clock: MockClock) -> None:
    async with open_server(RUDE) as server:
        found = await Hangup(prompt=2000, beside=(0,)).measure(replace(turn_on(server), limit=0.5))
    assert {figure.name: figure.bounded for figure in found} == {
        "the prompt, uninterrupted": False,
        "next request's wait": False,
        "until free": True,
    }


async def test_a_hang_up_that_comes_too_late_is_no_measurement(autojump_clock: MockClock) -> None:
    (failure,) = await failures_of(Hangup(prompt=100, moment=1.1, beside=(0,)))
    assert "had been read before" in failure


async def test_a_retry_computes_at_most_a_chunk_again(autojump_clock: MockClock) -> None:
    found = await values_of(Retry(prompt=1000))
    assert found["computed again", "in the prefill"] <= 64
    assert found["of that of the whole prompt", "in the prefill"] == pytest.approx(0.4, abs=0.08)
    assert found["computed again", "in the response"] == 0


async def test_a_retry_on_a_server_that_forgets_starts_over(autojump_clock: MockClock) -> None:
    found = await values_of(Retry(prompt=1000), replace(PLAIN, caches=False, receipts=False))
    assert found["computed again", "in the prefill"] == pytest.approx(600)  # by the clock
    assert found["computed again", "in the response"] == 1000
    assert found["of that of the whole prompt", "in the response"] == pytest.approx(1, abs=0.1)
