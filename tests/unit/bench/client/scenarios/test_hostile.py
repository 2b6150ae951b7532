"""Hostile clients: what they cost their neighbour, and where memory can be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.scenarios.hostile import Hostile
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import PLAIN, failures_of, turn_on, values_of

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
