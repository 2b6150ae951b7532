"""A cache shows in the time and in the count."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from bench.client.scenarios.cache import Cache
from tests.unit.bench.client.scenarios.turns import values_of


async def test_a_cache_shows_in_the_time_and_in_the_count(autojump_clock: MockClock) -> None:
    found = await values_of(Cache(prompt=500, others=2))
    assert found["time to first token", "new"] == pytest.approx(0.51)
    assert found["time to first token", "again"] == pytest.approx(0.011)
    assert found["cached", "again"] == 499
    assert found["cached", "continued"] == 500
    assert found["cached", "after 2 others"] == 499
