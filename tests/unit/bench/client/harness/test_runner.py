"""Rounds: targets take turns, at the same moments, and what was found is kept."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from bench.client.harness import runner
from bench.client.harness.dialect import Dialect
from bench.client.harness.runner import Plan, begin_record, calibrate, prepare_turn, rotated, run
from bench.client.harness.targets import Running, Target
from bench.client.reports.report import markdown
from bench.client.scenarios.throughput import Throughput
from tests.fakes.bench import Behaviour, FakeServer, Silence, client_of, open_server, running

TINY = Throughput(streams=(1, 2), prompt=4, tokens=8)


def opener(servers: dict[str, FakeServer], opened: list[str]) -> Callable[..., AbstractAsyncContextManager[Running]]:
    """`open_target` for servers that run in this process."""

    @asynccontextmanager
    async def open_fake(target: Target, log: Path) -> AsyncIterator[Running]:
        opened.append(target.name)
        yield running(servers[target.name], target.name)

    return open_fake


@pytest.mark.parametrize("exclusive", [False, True])
async def test_targets_take_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exclusive: bool
) -> None:
    opened: list[str] = []
    targets = [Target("fast", "http://fake"), Target("slow", "http://fake")]
    async with open_server() as fast, open_server(Behaviour(decode_seconds=0.02)) as slow:
        monkeypatch.setattr(runner, "open_target", opener({"fast": fast, "slow": slow}, opened))
        plan = Plan(rounds=2, seed=3, exclusive=exclusive)
        record = begin_record(TINY, targets, plan)
        await run(TINY, targets, plan, record, logs=tmp_path, progress=Silence())
    assert opened == (["fast", "slow", "slow", "fast"] if exclusive else ["fast", "slow"])
    assert not record.failures
    assert [(s.target, s.round) for s in record.samples if s.figure.x == 1] == [
        ("fast", 0),
        ("slow", 0),
        ("slow", 1),
        ("fast", 1),
    ]
    assert record.parameters["streams"] == (1, 2)
    assert record.parameters["seed"] == 3
    assert record.about.startswith("Tokens per second")


async def test_what_was_found_before_the_end_is_kept(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, targets = Plan(rounds=100, seed=3), [Target("fast", "http://fake")]
    record = begin_record(TINY, targets, plan)
    async with open_server() as fast:
        monkeypatch.setattr(runner, "open_target", opener({"fast": fast}, []))
        with trio.move_on_after(2):
            await run(TINY, targets, plan, record, logs=tmp_path, progress=Silence())
    assert 0 < len(record.samples) < 200
    assert "(of 100) rounds" in markdown([record])


def test_everybody_comes_first_once() -> None:
    targets = [Target(name, "") for name in "abc"]
    assert [[t.name for t in rotated(targets, number)] for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


async def test_moments_are_shared_and_prompts_are_not(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        one, same, other, later = [
            await prepare_turn(TINY, running(server, name), Plan(rounds=2, seed=1), number, Silence())
            for name, number in (("a", 0), ("a", 0), ("b", 0), ("a", 1))
        ]
    moments = [turn.rng.random() for turn in (one, same, other, later)]
    prompts = [turn.prompts.make(8) for turn in (one, same, other, later)]
    assert moments[0] == moments[1] == moments[2] != moments[3]
    assert prompts[0] == prompts[1]
    assert len(set(prompts)) == 3


async def test_text_is_calibrated_by_the_server_s_own_count(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        scale = await calibrate(client_of(server, Dialect(endpoint="chat", token_ids=None)), random.Random(0))
    assert (scale.overhead, scale.tokens_per_word) == (0, 1)
