"""The proofs at a small size: clients hang up, and workers are killed, beside others that notice nothing.

Where the machine stood still meanwhile, so that discovery forgot workers, requests may have failed for that alone: the
proof is played again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest
import trio

from tests.live.cluster.parts import Parts
from tests.live.cluster.proofs import closes, kills

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    with Parts(tmp_path_factory.mktemp("parts"), *closes.FLAGS) as parts:
        yield parts


@pytest.fixture
def parts(running: Parts) -> Parts:
    running.wait_whole()
    return running


def undisturbed(parts: Parts, play: Callable[[], Awaitable[T]]) -> T:
    """Return what a proof comes to in which no worker was forgotten."""
    while True:
        before = parts.forgotten()
        try:
            report = trio.run(play)
        except BaseException:
            print(parts.log()[-8000:])  # pytest shows it
            raise
        if parts.forgotten() == before:
            return report
        parts.wait_whole()


def test_who_hangs_up_leaves_one_receipt_and_nothing_leased(parts: Parts) -> None:
    report = undisturbed(parts, lambda: closes.close_many(parts, 12, seed=1))
    report.check()
    assert report.closed == 12


def test_a_storm_of_hang_ups_leaves_one_receipt_each(parts: Parts) -> None:
    report = undisturbed(parts, lambda: closes.storm(parts, 30, seed=2, rate=100.0))
    report.check()
    assert report.closed == 30


def test_streams_outlive_the_workers_that_are_killed_and_others_are_told_to_come_again(parts: Parts) -> None:
    report = undisturbed(parts, lambda: kills.kill_many(parts, 1, seed=3))
    report.check()
    assert len(report.kills) == 1
