"""The benchmark's statistics and records."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.client.harness.figures import (
    Failure,
    Record,
    percentile,
)
from tests.unit.bench.client.records import RATE, record, rounds


def test_percentiles_are_interpolated() -> None:
    assert percentile([1, 2, 3, 4, 5], 50) == 3
    assert percentile([0, 10], 99) == pytest.approx(9.9)


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    made = record(*rounds(RATE, ours=[1, 2], theirs=[3, 4]))
    made.failures.append(Failure("theirs", 1, "it fell over"))
    made.save(tmp_path / "trial.json")
    assert Record.load(tmp_path / "trial.json") == made


@pytest.mark.parametrize("text", ["", "[]", '{"scenario": "x"}', '{"samples": [{}], "failures": []}'])
def test_a_file_that_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match="not a result"):
        Record.load(tmp_path / "other.json")
