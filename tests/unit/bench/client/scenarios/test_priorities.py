"""An interactive client beside generations in every slot, on servers that have priorities and on one that has not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.scenarios.priorities import Priorities
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import PLAIN, failures_of, figures_of, turn_on, values_of

# A prompt of 100 takes 0.1 s and 16 tokens 0.16 s; each of the others' prompts 0.2 s, a token of theirs 0.01 s.
SIZES = Priorities(streams=1, depth=200, background=400, prompt=100, tokens=16, every=5.0, requests=4)
FULL = replace(PLAIN, slots=1)
PREEMPTION = replace(FULL, preempts=True, preempt_seconds=0.05)


async def test_the_idle_server_tells_what_a_first_token_takes(autojump_clock: MockClock) -> None:
    found = await values_of(SIZES, FULL)
    assert found["time to first token", "idle"] == pytest.approx(0.11)
    assert found["reading the others' prompt", "idle"] == pytest.approx(0.21)


async def test_a_server_without_priorities_lets_the_client_wait_for_a_slot(autojump_clock: MockClock) -> None:
    found = await values_of(SIZES, FULL)
    assert found["time to first token", "at most"] > 1
    allowed = 1.5 * 0.11 + 0.01
    ratio = found["time to first token", "at most"] / allowed
    assert found["first token over what is allowed", "at most"] == pytest.approx(ratio)
    assert found["streams set aside", ""] == 0
    assert ("set aside and back", "") not in found


async def test_a_server_that_makes_room_lets_it_wait_for_little_more_than_that(autojump_clock: MockClock) -> None:
    found = await values_of(SIZES, PREEMPTION)
    expected = 0.05 + 0.11  # and a token that has begun
    assert expected < found["time to first token", "at most"] < expected + 0.02
    assert found["streams set aside", ""] == SIZES.requests


async def test_a_stream_that_stays_is_not_counted(autojump_clock: MockClock) -> None:
    found = await values_of(replace(SIZES, streams=2), replace(PREEMPTION, slots=2))
    assert found["streams set aside", ""] == SIZES.requests


async def test_making_room_is_told_beside_reading_anew(autojump_clock: MockClock) -> None:
    found = await values_of(SIZES, PREEMPTION)
    took = found["set aside and back", ""]
    assert 0.11 < took < 0.13, "twice 0.05 s, its next token, and one that had begun"
    assert found["set aside and back over reading", ""] == pytest.approx(took / 0.21)


async def test_making_room_that_takes_longer_shows(autojump_clock: MockClock) -> None:
    short, long = await values_of(SIZES, PREEMPTION), await values_of(SIZES, replace(PREEMPTION, preempt_seconds=0.3))
    more = long["set aside and back", ""] - short["set aside and back", ""]
    assert more == pytest.approx(0.5, abs=0.02)
    assert long["the others lose", ""] > short["the others lose", ""]


async def test_what_the_others_lose_is_told_beside_what_the_client_takes(autojump_clock: MockClock) -> None:
    found = await values_of(SIZES, PREEMPTION)
    assert found["the others", "alone"] == pytest.approx(100, rel=0.01)
    assert found["the client's requests take", ""] == pytest.approx(100 * 4 * 0.26 / 20)
    # The device works for the client for 0.26 s, and for 0.1 s to make room, every five seconds.
    assert found["the others lose", ""] == pytest.approx(100 * 0.36 / 5, abs=0.5)
    ratio = found["the others lose", ""] / found["the client's requests take", ""]
    assert found["lost over taken", ""] == pytest.approx(ratio)


async def test_the_priorities_are_said(autojump_clock: MockClock) -> None:
    async with open_server(FULL) as server:
        await SIZES.measure(turn_on(server))
    said = {(len(body["prompt"]), body.get("priority")) for body in server.bodies}
    assert said == {(100, -10), (200, 10), (200, None)}, "who reads the others' prompt alone needs none"


async def test_a_wait_that_was_given_up_is_a_bound(autojump_clock: MockClock) -> None:
    for_ever = replace(SIZES, background=10**5, requests=2)
    found = await figures_of(for_ever, FULL)
    assert found["time to first token", "at most"].bounded
    assert found["time to first token", "at most"].value == 60, "the limit of the turn"
    assert not found["time to first token", "idle"].bounded


async def test_a_refusal_fails_the_turn(autojump_clock: MockClock) -> None:
    assert "HTTP 429" in (await failures_of(SIZES, replace(FULL, queue=0)))[0]
