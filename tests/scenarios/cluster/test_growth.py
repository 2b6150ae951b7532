"""Traffic of a cluster, counted for a few workers: what grows with them, and what with their square."""

from __future__ import annotations

import pytest

from tests.sim.cluster.growth.model import Counted, Load, grow

DOORS = 2


@pytest.fixture(scope="module")
def counts() -> tuple[Counted, Counted]:
    load = Load(prompt=128, output=10, successors=1.0)
    return grow(10, DOORS, load), grow(20, DOORS, load)


def test_at_a_start_everybody_is_told_of_everybody(counts: tuple[Counted, Counted]) -> None:
    assert [one.messages["start"] for one in counts] == [n * (2 * n + DOORS) for n in (10, 20)]


def test_one_death_is_told_once_to_all_who_follow(counts: tuple[Counted, Counted]) -> None:
    assert [one.messages["a worker's death"] for one in counts] == [2 * n + DOORS for n in (10, 20)]


def test_blocks_are_told_to_each_front_door_and_tokens_to_one(counts: tuple[Counted, Counted]) -> None:
    assert [one.messages["tokens answered"] for one in counts] == [10 * n for n in (10, 20)]
    assert [one.messages["blocks told of"] for one in counts] == [DOORS * 2 * n for n in (10, 20)]


def test_a_successor_is_told_to_all_others(counts: tuple[Counted, Counted]) -> None:
    assert [one.messages["successors told of"] for one in counts] == [n * (n - 1) for n in (10, 20)]
