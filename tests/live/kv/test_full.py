"""A disk and a memory that are full, under a real server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.kv_blocks import small_file_system
from tests.live.http_client import prompt
from tests.live.kv.servers import (
    ONE_SLOT_ON_DISK,
    Starter,
    ask,
    cache_statistics,
    disk_statistics,
    hits_of,
    plain,
    resident,
    reusable,
    root_of,
    tokens,
    verify,
    wait_saved,
)
from tests.live.server import COMPLETIONS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.live.server import Json

    Expected = Callable[[Json, str], list[int]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MiB: two dozen blocks."""
    with small_file_system(tmp_path / "small", "8m") as folder:
        yield folder


def test_a_full_disk(small_disk: Path, start: Starter, expected: Expected) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 * 2**20))
    prompts = [prompt(200, seed) for seed in range(160, 170)]
    first, last, last_but_one = prompts[0], prompts[-1], prompts[-2]
    with start(*ONE_SLOT_ON_DISK, "--kv-dir", str(small_disk / "kv")) as server:
        for ids in prompts:
            ask(server, plain(ids, 4))
        wait_saved(server)
        statistics = disk_statistics(server)
        assert (statistics["suspended"], statistics["blocks"] < 3 * len(prompts)) == (True, True)
        for ids in (first, last_but_one):  # serving goes on, from what is there and from nothing
            answer, hits = hits_of(server, plain(ids, 4))
            assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS)
            assert hits == ({"disk": reusable(first)} if ids is first else {})
        assert not list(root_of(small_disk / "kv").glob("*.tmp"))

        def resumed() -> bool:
            for ids in (last, last_but_one):
                ask(server, plain(ids, 4))
            return not disk_statistics(server)["suspended"]

        ballast.unlink()
        wait_for(resumed, "writing to go on")
        for ids in (last, last_but_one, first):  # some of their blocks may have come too early
            ask(server, plain(ids, 4))
        for ids in (last, last_but_one):
            answer, hits = hits_of(server, plain(ids, 4))
            assert hits == {"disk": reusable(ids)}
            assert tokens(answer) == expected(plain(ids, 4), COMPLETIONS)
        log = server.whole_log()
    assert log.count("KV blocks are not written to disk for now: No space left on device") == 1
    assert log.count("KV blocks are written to disk again") == 1
    verify(small_disk / "kv")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads a process's memory from /proc")
def test_memory_stays_within_its_budget(start: Starter) -> None:
    """Four times the budget passes through; the server beside it has no such tier."""
    budget = 6 * 2**20
    with_ram = start("--slots", "1", "--context", "1024", "--kv-ram", str(budget))
    without = start("--slots", "1", "--context", "1024", "--kv-ram", "0")
    for seed in range(400, 410):
        ask(with_ram, plain(prompt(500, seed), 1))
        if seed < 403:
            ask(without, plain(prompt(500, seed), 1))
    wait_saved(with_ram)
    statistics = cache_statistics(with_ram)["ram"]
    assert 0.9 * budget < statistics["bytes"] <= budget
    assert statistics["evictions"] > 2 * statistics["blocks"]
    assert resident(with_ram) < resident(without) + 1.1 * budget + 8 * 2**20
