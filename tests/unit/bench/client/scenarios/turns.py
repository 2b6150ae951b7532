"""Turns of a scenario on a server whose speed and manners are known, and what they say."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.client.harness.dialect import Dialect
from bench.client.harness.figures import Figure, Record
from bench.client.harness.prompts import PromptMaker
from bench.client.harness.runner import Plan, take_turn
from bench.client.harness.turn import Measurement, Scenario
from tests.fakes.bench import Behaviour, FakeServer, Silence, client_of, open_server, running

PLAIN = Behaviour()  # 1000 prompt tokens a second, 100 response tokens, in chunks of 64
RUDE = replace(PLAIN, heeds=False, caches=False, receipts=False)


def turn_on(server: FakeServer, dialect: Dialect | None = None) -> Measurement:
    """Return a turn of a scenario on that server."""
    token_ids = range(300, 3000)
    return Measurement(client_of(server, dialect), PromptMaker(random.Random(1), token_ids), random.Random(2), limit=60)


async def figures_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> dict[tuple[str, str], Figure]:
    """The scenario's figures by name and case."""
    async with open_server(behaviour) as server:
        return {figure.key: figure for figure in await scenario.measure(turn_on(server))}


async def values_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> dict[tuple[str, str], float]:
    """Return the values of a scenario's figures by name and case."""
    return {key: figure.value for key, figure in (await figures_of(scenario, behaviour)).items()}


async def failures_of(scenario: Scenario, behaviour: Behaviour = PLAIN) -> list[str]:
    """Return what goes wrong in a turn."""
    async with open_server(behaviour) as server:
        record = Record("trial", "", "", {}, {}, {})
        await take_turn(scenario, running(server), Plan(rounds=1, seed=1), 0, record, Silence())
    assert not record.samples
    return [failure.why for failure in record.failures]
