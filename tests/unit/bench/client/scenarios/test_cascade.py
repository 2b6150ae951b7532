"""A cascade of cancels, and the neighbours of a long prompt, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.scenarios.cascade import Cascade, Neighbours
from tests.unit.bench.client.scenarios.turns import PLAIN, values_of


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
