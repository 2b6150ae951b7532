"""Each way to pick a token is asked for by its fields, and in its turn the first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bench.client.harness.dialect import Dialect
from bench.client.scenarios.sampling import Sampling
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import turn_on

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_each_way_is_asked_for_without_speculation(autojump_clock: MockClock) -> None:
    scenario, asked = Sampling(streams=(1,), prompt=1, tokens=20, temperature=0.7, top_k=9, top_p=0.5), []
    async with open_server() as server:
        turn = turn_on(server, Dialect(model="fake", without_speculation={"drafts": 0}))
        for number in range(3):
            found = {f.key: f.value for f in await scenario.measure(replace(turn, round=number))}
            asked.append([(b["temperature"], b.get("top_k"), b.get("top_p")) for b in server.bodies[3 * number :]])
    greedy, unfiltered, filtered = (0, None, None), (0.7, 0, 1), (0.7, 9, 0.5)
    assert asked == [
        [greedy, unfiltered, filtered],
        [unfiltered, filtered, greedy],
        [filtered, greedy, unfiltered],
    ]
    assert all(body["drafts"] == 0 for body in server.bodies)
    assert {key for key, _ in found} == {
        "greedy", "unfiltered", "filtered", "unfiltered / greedy", "filtered / greedy"
    }  # fmt: skip
    assert found["greedy", "1 stream"] == pytest.approx(100, rel=0.1)
    assert found["filtered / greedy", "1 stream"] == pytest.approx(1)
