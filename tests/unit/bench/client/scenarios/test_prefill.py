"""Prefill and depth on a server whose speed is known, in virtual time."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from bench.client.scenarios.prefill import Depth, Prefill
from tests.unit.bench.client.scenarios.turns import values_of


async def test_prefill_and_depth_are_told_apart(autojump_clock: MockClock) -> None:
    found = await values_of(Prefill(lengths=(500, 1000)))
    assert found["time to first token", "1000 tokens"] == pytest.approx(1.01)
    assert found["prefill", "500 tokens"] == pytest.approx(500 / 0.51)
    assert (await values_of(Depth(depths=(0, 1000), tokens=8)))["decode", "1000 deep"] == pytest.approx(100)
