"""A conversation that changes a little, on servers that remember what they have read, and on those that do not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.harness.dialect import Dialect
from bench.client.harness.prompts import PromptMaker
from bench.client.scenarios.nudge import Kind, Nudge
from tests.fakes.bench import open_server
from tests.unit.bench.client.scenarios.turns import PLAIN, RUDE, turn_on, values_of

NUDGE = Nudge(turns=11, begin=200, message=40, answer=20, pasted=400)
SHARE = "used again of what was known"
CASES = [*(kind.value for kind in Kind), "all turns"]


async def test_a_server_that_remembers_all_computes_nothing_again(autojump_clock: MockClock) -> None:
    found = await values_of(NUDGE)
    assert {found[SHARE, kind] for kind in Kind if kind is not Kind.LEFT_PROMPT} == {1}
    assert 0.9 < found[SHARE, "hang-up in a prompt"] <= 1  # it comes back before the chunk that it left has ended
    assert found["computed again", "turn 4, hang-up in a prompt"] <= 64
    assert found["time to first token", "turn 2, next turn"] == pytest.approx(0.041 + 0.01)  # and the answer's last
    assert found["time to first token", "turn 3, dropped thought"] == pytest.approx(0.05 + 0.01)
    assert found["time to first token", "turn 6, edit"] == pytest.approx(0.02 + 0.01)


async def test_a_server_that_forgets_computes_all_again(autojump_clock: MockClock) -> None:
    found = await values_of(NUDGE, RUDE)
    assert [found[SHARE, case] for case in CASES] == [0] * len(CASES)
    assert (
        found["computed again, mean", "next turn"]
        == (found["computed again", "turn 2, next turn"] + found["computed again", "turn 7, next turn"]) / 2
    )
    assert found["computed again", "turn 2, next turn"] == 200 + 19
    assert found["computed again", "turn 3, dropped thought"] == 200 + 20 + 40
    assert (
        found["computed again", "turn 6, edit"] == found["computed again", "turn 5, hang-up in an answer"] + 1 - 40 // 2
    )


async def test_without_receipts_time_tells_how_far_a_prompt_was_read(autojump_clock: MockClock) -> None:
    found = await values_of(NUDGE, replace(PLAIN, receipts=False))
    assert found["computed again", "turn 4, hang-up in a prompt"] <= 64  # of the chunk that was cut short
    assert found[SHARE, "hang-up in a prompt"] > 0.8


async def test_a_server_that_does_not_say_what_it_had_is_timed(autojump_clock: MockClock) -> None:
    found = await values_of(NUDGE, replace(PLAIN, usage=False))
    assert {name for name, _ in found} == {"time to first token", "time to first token, mean"}


async def test_answers_to_text_are_known_to_nobody(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        turn = replace(turn_on(server, Dialect(token_ids=None)), prompts=PromptMaker(random.Random(1), None))
        found = {figure.key: figure.value for figure in await NUDGE.measure(turn)}
    assert {found[SHARE, kind] for kind in Kind if kind is not Kind.LEFT_PROMPT} == {1}
    assert found["time to first token", "turn 2, next turn"] == pytest.approx(0.06 + 0.01)


async def test_a_seed_makes_the_same_conversation_again(autojump_clock: MockClock) -> None:
    bodies = []
    for _ in range(2):
        async with open_server() as server:
            await NUDGE.measure(turn_on(server))
        bodies.append(server.bodies)
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 11 + 2 * 2  # two turns in five are asked twice
