"""Speculation is switched off by the target's own fields."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from bench.client.harness.dialect import Dialect
from bench.client.scenarios.speculate import Speculate
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import turn_on


async def test_speculation_is_switched_off_by_the_target_s_own_fields(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        turn = turn_on(server, Dialect(model="fake", without_speculation={"drafts": 0}))
        found = {f.key: f.value for f in await Speculate(streams=(1,), tokens=32).measure(turn)}
    assert [(body["max_tokens"], body.get("drafts")) for body in server.bodies] == [(1, None), (32, 0), (32, None)]
    assert found["drafts accepted", "1 stream"] == 0.75
    assert found["speed-up", "1 stream"] == pytest.approx(1)
