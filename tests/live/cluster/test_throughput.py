"""The benchmark of a front door beside its workers' own addresses, on the embedded model."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from bench.client.harness.figures import Record
from bench.cluster.clusters import DidNotStart, open_cluster
from bench.cluster.throughput import DIRECT, DOOR, main


def test_each_round_has_both_rates_and_all_is_drawn(tmp_path: Path) -> None:
    sizes = ["--workers", "1", "--workers", "2", "--streams", "1", "--tokens", "8", "--rounds", "1"]
    done = CliRunner().invoke(main, [*sizes, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    record = Record.load(tmp_path / "front-door.json")
    rates = {(sample.target, sample.figure.case): sample.figure.value for sample in record.samples}
    assert set(rates) == {(place, f"N = {workers}") for place in (DOOR, DIRECT) for workers in (1, 2)}
    assert all(rate > 0 for rate in rates.values())
    assert (tmp_path / "front-door-throughput.png").stat().st_size > 0


def test_a_cluster_that_does_not_start_says_why() -> None:
    async def start() -> None:
        async with open_cluster(1, "--model", "/no/such/model"):
            pass

    with pytest.raises(DidNotStart, match="no/such/model"):
        trio.run(start)
