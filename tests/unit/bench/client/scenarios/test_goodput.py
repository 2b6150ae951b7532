"""Goodput rewards those who heed a hang-up, in virtual time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.harness.trace import RequestFailed
from bench.client.scenarios.goodput import Goodput
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import PLAIN, RUDE, turn_on, values_of


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
