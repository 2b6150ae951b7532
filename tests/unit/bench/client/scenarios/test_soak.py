"""A soak counts what goes wrong and goes on."""

from __future__ import annotations

from dataclasses import replace

from trio.testing import MockClock

from bench.client.scenarios.soak import Soak
from tests.unit.bench.client.scenarios.turns import PLAIN, values_of


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
