"""Plots of a record: one picture for each figure, with all targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.client.harness.figures import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from bench.client.harness.figures import Record, Row, Spread

WIDTH, HEIGHT = 7.0, 4.0  # inches


def draw_plots(record: Record, folder: Path) -> list[Path]:
    """Write files `SCENARIO-FIGURE.png` to `folder` and return their paths.  A figure with one case gets no picture."""
    by_name: dict[str, list[Row]] = {}
    for row in summarise(record):
        by_name.setdefault(row.figure.name, []).append(row)
    paths = []
    for name, rows in by_name.items():
        if len(rows) > 1:
            paths.append(folder / f"{record.scenario}-{_slug(name)}.png")
            draw(f"{record.scenario}: {name}", list(record.targets), rows).savefig(paths[-1], dpi=150)
    return paths


def draw(title: str, targets: Sequence[str], rows: Sequence[Row]) -> Picture:
    """Draw lines if the cases lie on an axis, else bars in groups, with whiskers from the lowest to the highest."""
    from matplotlib.figure import Figure as Picture  # and no pyplot, which keeps every picture alive

    picture = Picture(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = picture.subplots()
    if all(row.figure.x is not None for row in rows):
        _draw_lines(axes, targets, rows, [row.figure.x or 0.0 for row in rows])
    else:
        _draw_bars(axes, targets, rows)
    figure = rows[0].figure
    axes.set_title(f"{title} ({figure.better} is better)" if figure.better != "neither" else title)
    axes.set_ylabel(figure.unit)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend()
    return picture


def _draw_lines(axes: Axes, targets: Sequence[str], rows: Sequence[Row], positions: Sequence[float]) -> None:
    for target in targets:
        there = [(x, row.spreads[target]) for x, row in zip(positions, rows, strict=True) if target in row.spreads]
        spreads = [spread for _, spread in there]
        whiskers = _whiskers(spreads)
        axes.errorbar([x for x, _ in there], _medians(spreads), yerr=whiskers, label=target, marker="o", capsize=3)
    axes.set_ylim(bottom=0)
    axes.set_xticks(positions, [row.figure.case for row in rows])


def _draw_bars(axes: Axes, targets: Sequence[str], rows: Sequence[Row]) -> None:
    width = 0.8 / len(targets)
    for number, target in enumerate(targets):
        there = [(index, row.spreads[target]) for index, row in enumerate(rows) if target in row.spreads]
        positions = np.array([index for index, _ in there]) + (number - (len(targets) - 1) / 2) * width
        spreads = [spread for _, spread in there]
        axes.bar(positions, _medians(spreads), width, yerr=_whiskers(spreads), label=target, capsize=3)
    axes.set_xticks(range(len(rows)), [row.figure.case.replace(", ", ",\n") for row in rows])


def _medians(spreads: Sequence[Spread]) -> list[float]:
    return [spread.median for spread in spreads]


def _whiskers(spreads: Sequence[Spread]) -> list[list[float]]:
    """Return how far the range goes below and above the medians: `[2, cases]`."""
    return [[spread.median - spread.low for spread in spreads], [spread.high - spread.median for spread in spreads]]


def _slug(name: str) -> str:
    kept = "".join(letter if letter.isalnum() else " " for letter in name)
    return "-".join(kept.split())
