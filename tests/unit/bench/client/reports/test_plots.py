"""Plots of the benchmark's figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.client.harness.figures import (
    summarise,
)
from bench.client.reports.plots import draw, draw_plots
from tests.unit.bench.client.records import RATE, WAIT, record, rounds


def test_cases_on_an_axis_are_lines_and_others_bars() -> None:
    on_axis = summarise(record(*rounds(RATE, ours=[1]), *rounds(replace(RATE, case="2 streams", x=2), ours=[2])))
    others = summarise(record(*rounds(replace(WAIT, case="a"), ours=[1]), *rounds(replace(WAIT, case="b"), theirs=[2])))
    (lines,) = draw("rates", ["ours", "theirs"], on_axis).axes
    (bars,) = draw("waits", ["ours", "theirs"], others).axes
    assert (len(lines.lines) > 0, len(lines.patches)) == (True, 0)
    assert len(bars.patches) == 2


def test_a_figure_without_cases_has_no_plot(tmp_path: Path) -> None:
    assert draw_plots(record(*rounds(WAIT, ours=[1, 2])), tmp_path) == []
