"""A memory that is full, under a real server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.http_client import prompt
from tests.live.kv.servers import (
    Starter,
    ask,
    cache_statistics,
    plain,
    resident,
    wait_saved,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live.server import Json

    Expected = Callable[[Json, str], list[int]]


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
