"""Each scenario on a server whose speed and manners are known, in virtual time."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from bench.client.attacks.catalogue import ATTACKS
from bench.client.attacks.sending import AttackTarget
from bench.client.harness.client import Dialect, RequestFailed, RequestSpec
from bench.client.harness.figures import Record
from bench.client.harness.prompts import PromptMaker
from bench.client.harness.runner import Plan, take_turn
from bench.client.harness.turn import Turn, measure_freed, measure_unloaded
from bench.client.scenarios import SCENARIOS
from bench.client.scenarios.cache import Cache
from bench.client.scenarios.cascade import Cascade, Neighbours
from bench.client.scenarios.goodput import Goodput
from bench.client.scenarios.hangup import Hangup, Retry
from bench.client.scenarios.hostile import Hostile
from bench.client.scenarios.prefill import Depth, Prefill
from bench.client.scenarios.soak import Soak
from bench.client.scenarios.speculate import Speculate
from bench.client.scenarios.throughput import Throughput
from tests.fakes.bench import Behaviour, Silence, client_of, open_server, running

if TYPE_CHECKING:
    from trio.testing import MockClock

    from bench.client.harness.figures import Figure
    from bench.client.harness.turn import Scenario
    from tests.fakes.bench import FakeServer

PLAIN = Behaviour()  # 1000 prompt tokens a second, 100 response tokens, in chunks of 64
RUDE = replace(PLAIN, heeds=False, caches=False, receipts=False)


def turn_on(server: FakeServer, dialect: Dialect | None = None) -> Turn:
    token_ids = range(300, 3000)
    return Turn(client_of(server, dialect), PromptMaker(random.Random(1), token_ids), random.Random(2), limit=60)


async def figures_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> dict[tuple[str, str], Figure]:
    """The scenario's figures by name and case."""
    async with open_server(behaviour) as server:
        return {figure.key: figure for figure in await scenario.measure(turn_on(server))}


async def values_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> dict[tuple[str, str], float]:
    return {key: figure.value for key, figure in (await figures_of(scenario, behaviour)).items()}


async def failures_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> list[str]:
    """What goes wrong in a turn."""
    async with open_server(behaviour) as server:
        record = Record("trial", "", "", {}, {}, {})
        await take_turn(scenario, running(server), Plan(rounds=1, seed=1), 0, record, Silence())
    assert not record.samples
    return [failure.why for failure in record.failures]


def test_every_scenario_is_there() -> None:
    wanted = "throughput prefill depth hangup retry cascade neighbours goodput cache speculate soak hostile".split()
    assert sorted(SCENARIOS) == sorted(wanted)


async def test_throughput_is_that_of_the_device(autojump_clock: MockClock) -> None:
    found = await figures_of(Throughput(streams=(1, 4), prompt=1, tokens=50))
    assert found["throughput", "1 stream"].value == pytest.approx(100, rel=0.01)
    assert found["throughput", "4 streams"].value == pytest.approx(100, rel=0.01)
    assert found["throughput", "4 streams"].x == 4


async def test_what_was_not_the_load_that_was_asked_for_is_said(autojump_clock: MockClock) -> None:
    async with open_server(replace(PLAIN, stops_after=5, context=300)) as server:
        for _ in range(2):
            record = Record("", "", "", {}, {}, {})
            scenario = Depth(depths=(0, 1000), tokens=8)
            await take_turn(scenario, running(server), Plan(rounds=1, seed=1), 0, record, Silence())
            assert len(record.samples) == 2
            assert [failure.why.partition(":")[0] for failure in record.failures] == [
                "2 responses shorter than asked for",
                "1 prompts counted shorter than they were sent",
            ]


async def test_prefill_and_depth_are_told_apart(autojump_clock: MockClock) -> None:
    found = await values_of(Prefill(lengths=(500, 1000)))
    assert found["time to first token", "1000 tokens"] == pytest.approx(1.01)
    assert found["prefill", "500 tokens"] == pytest.approx(500 / 0.51)
    assert (await values_of(Depth(depths=(0, 1000), tokens=8)))["decode", "1000 deep"] == pytest.approx(100)


# --- hanging up -----------------------------------------------------------------------------------------------------


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


# --- those that stay ------------------------------------------------------------------------------------------------


async def test_a_cascade_leaves_the_active_alone(autojump_clock: MockClock) -> None:
    found = await values_of(Cascade(tokens=64, queued=8, patience=0.1))
    assert found["responses that came whole", ""] == 1
    assert found["gap between tokens, median", "leaving"] == pytest.approx(40, rel=0.05)  # four of 10 ms in turn


async def test_a_cascade_counts_what_breaks(autojump_clock: MockClock) -> None:
    found = await values_of(Cascade(tokens=64, queued=8, patience=0.1), replace(PLAIN, breaks_after=40))
    assert found["responses that came whole", ""] == 0


async def test_neighbours_see_the_chunks_of_a_prefill(autojump_clock: MockClock) -> None:
    found = await values_of(Neighbours(prompt=1000, seconds=3, traffic_tokens=100, cancels=5))
    assert found["gap between tokens, median", "alone"] == pytest.approx(30, rel=0.05)
    assert found["gap between tokens, median", "beside a prefill"] == pytest.approx(30 + 64, rel=0.1)
    assert found["p99 over the median alone", "beside a prefill"] == pytest.approx(94 / 30, rel=0.1)
    assert found["gap between tokens, median", "beside cancels"] < 94


# --- all together ---------------------------------------------------------------------------------------------------


def test_a_day_is_the_same_for_everyone() -> None:
    scenario = Goodput(rate=2, seconds=500)
    day = scenario.visits(random.Random(7))
    assert day == scenario.visits(random.Random(7))
    assert len(day) == pytest.approx(1000, rel=0.1)
    leaving = [visit for visit in day if visit.leaves_after is not None]
    assert len(leaving) == pytest.approx(len(day) / 2, rel=0.1)
    assert sum(visit.returns_after is not None for visit in leaving) == pytest.approx(len(leaving) / 2, rel=0.2)
    assert all(512 <= visit.prompt <= 2048 for visit in day)


async def test_goodput_rewards_those_who_heed(autojump_clock: MockClock) -> None:
    scenario = Goodput(rate=1.5, seconds=30, shortest=500, longest=1500, patience=1, drain=200)
    heeding, deaf = await values_of(scenario), await values_of(scenario, RUDE)
    assert heeding["served, of those that stayed", ""] == 1
    assert heeding["goodput", ""] > 1.2 * deaf["goodput", ""]
    assert heeding["time to first token, median", ""] < deaf["time to first token, median", ""]


async def test_goodput_counts_the_time_in_which_nobody_was_served(autojump_clock: MockClock) -> None:
    scenario = Goodput(rate=1, seconds=20, shortest=10, longest=10, leaving=0, drain=0)
    async with open_server(replace(PLAIN, decode_seconds=0.2, slots=1)) as server:
        turn = turn_on(server)
        first = scenario.visits(random.Random(2))[0].at
        found = {figure.name: figure.value for figure in await scenario.measure(turn)}
    served = (20 - first) // (32 * 0.2 + 0.01)
    assert found["goodput"] == pytest.approx(served * 32 / (20 - first))


async def test_goodput_of_a_server_that_refuses_everyone(autojump_clock: MockClock) -> None:
    async with open_server(replace(PLAIN, fails=503)) as server:
        with pytest.raises(RequestFailed, match="not one of"):
            await Goodput(rate=1, seconds=5).measure(turn_on(server))


async def test_a_cache_shows_in_the_time_and_in_the_count(autojump_clock: MockClock) -> None:
    found = await values_of(Cache(prompt=500, others=2))
    assert found["time to first token", "new"] == pytest.approx(0.51)
    assert found["time to first token", "again"] == pytest.approx(0.011)
    assert found["cached", "again"] == 499
    assert found["cached", "continued"] == 500
    assert found["cached", "after 2 others"] == 499


async def test_speculation_is_switched_off_by_the_target_s_own_fields(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        turn = turn_on(server, Dialect(model="fake", without_speculation={"drafts": 0}))
        found = {f.key: f.value for f in await Speculate(streams=(1,), tokens=32).measure(turn)}
    assert [(body["max_tokens"], body.get("drafts")) for body in server.bodies] == [(1, None), (32, 0), (32, None)]
    assert found["drafts accepted", "1 stream"] == 0.75
    assert found["speed-up", "1 stream"] == pytest.approx(1)


async def test_a_soak_counts_what_goes_wrong(autojump_clock: MockClock) -> None:
    found = await values_of(Soak(seconds=60, clients=3, longest=200, patience=0.2))
    assert found["failures", ""] == 0
    assert found["same greedy answer", ""] == 1
    assert found["hang-ups", ""] > 5
    assert found["throughput", ""] > 10


async def test_a_soak_goes_on_when_clients_are_refused(autojump_clock: MockClock) -> None:
    found = await values_of(Soak(seconds=20, clients=3, longest=100, tokens=20), replace(PLAIN, slots=1, queue=1))
    assert found["failures", ""] > 5
    assert found["responses", ""] > 5


# --- hostile clients ------------------------------------------------------------------------------------------------


HOSTILE = Hostile(attacks="biases, another site", scale=0.02, tokens=300, seconds=1, most=10)


async def test_what_a_hostile_request_costs_its_neighbour(autojump_clock: MockClock) -> None:
    found = await values_of(HOSTILE, replace(PLAIN, held_seconds=0.4))
    assert found["gap between tokens alone, median", ""] == pytest.approx(10, rel=0.1)
    step = found["longest gap", "decent clients"]
    assert found["longest gap", "biases"] == pytest.approx(410, rel=0.05)
    assert found["longest gap over the median alone", "biases"] == pytest.approx(41, rel=0.1)
    assert found["beyond a step", "biases"] == pytest.approx(found["longest gap", "biases"] - step)
    assert found["beyond a step", "another site"] == 0
    assert found["answered 200", "biases"] == 1
    assert found["answered 200", "another site"] == 2
    assert [found["withstood", case] for case in ("biases", "another site")] == [0, 1]
    assert found["withstood, of all", ""] == 0.5
    assert ("memory grew, at most", "biases") not in found


async def test_memory_counts_where_it_can_be_seen(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        turn = replace(turn_on(server), memory=lambda: 10**6 * sum(len(b.get("logit_bias", ())) for b in server.bodies))
        found = {figure.key: figure.value for figure in await HOSTILE.measure(turn)}
    assert found["memory grew, at most", "biases"] > 1000
    assert found["withstood", "biases"] == 0
    assert found["withstood", "another site"] == 1


async def test_a_server_on_which_nobody_is_served_has_no_figures(autojump_clock: MockClock) -> None:
    assert "broke off" in (await failures_of(HOSTILE, replace(PLAIN, breaks_after=5)))[0]


async def test_an_unknown_attack_is_named() -> None:
    async with open_server() as server:
        with pytest.raises(RequestFailed, match="no attacks of these names: tickling; there are a long name, "):
            await Hostile(attacks="tickling").measure(turn_on(server))


async def test_every_attack_is_made_beforehand_and_is_large() -> None:
    async with open_server() as server:
        for prepare in ATTACKS.values():
            prepare(AttackTarget(client_of(server), scale=0.0001))
            assert prepare.__doc__
        assert not server.bodies
