"""Throughput on servers whose speed and manners are known, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.harness.figures import Record
from bench.client.harness.runner import Plan, take_turn
from bench.client.scenarios.prefill import Depth
from bench.client.scenarios.throughput import Throughput
from tests.fakes.bench import Silence, open_server, running
from tests.unit.bench.client.scenarios.turns import PLAIN, figures_of


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
