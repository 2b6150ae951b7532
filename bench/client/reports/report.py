"""Results as tables, in Markdown and on one HTML page with the plots in it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from bench.client.harness.figures import Better, Spread, summarise
from bench.client.reports.plots import draw_plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.harness.figures import Record, Row

TEMPLATE = Path(__file__).with_name("report.html.jinja")
ARROWS = {Better.HIGHER: "↑", Better.LOWER: "↓", Better.NEITHER: ""}
NONE = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown.  The first two of each line are the figure and its case."""

    header: list[str]
    lines: list[list[str]]


def make_table(record: Record) -> Table:
    """Make a table with a line for each figure and case, and a column for each target and each ratio of the first."""
    first, *others = record.targets
    header = ["", "", *record.targets, *(f"{first} better than {other}, times" for other in others)]
    return Table(header, [_line(row, [first, *others]) for row in summarise(record)])


def _line(row: Row, targets: Sequence[str]) -> list[str]:
    figure = row.figure
    name = " ".join(filter(None, [figure.name, figure.unit and f"[{figure.unit}]", ARROWS[figure.better]]))
    worse = "≥" if figure.better is Better.LOWER else "≤"
    measured = [_cell(row.spreads.get(target), worse) for target in targets]
    return [name, figure.case, *measured, *(_cell(row.advantages.get(target), "≥") for target in targets[1:])]


def _cell(spread: Spread | None, bound: str) -> str:
    """Format `median (low to high)`, with `bound` before it if a measurement was given up."""
    if spread is None:
        return NONE
    prefix = f"{bound} " if spread.bounded else ""
    shown = [format_number(value) for value in (spread.median, spread.low, spread.high)]
    return prefix + (shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})")


def format_number(value: float) -> str:
    """Format a number with three significant digits, and never an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    digits = 2 if abs(value) >= 1 else 3
    digits = 1 if abs(value) >= 10 else digits
    return f"{value:.{digits}f}"


# --- Markdown -------------------------------------------------------------------------------------------------------


def markdown(records: Sequence[Record], plots: Sequence[Sequence[Path]] = ()) -> str:
    """Return a page with all records, and links to the plots, which lie beside it."""
    parts = []
    for number, record in enumerate(records):
        shown = [f"![{plot.stem}]({plot.name})" for plot in (plots[number] if plots else ())]
        parts += [_section(record), *shown]
    return "\n\n".join(parts) + "\n"


def _section(record: Record) -> str:
    table = make_table(record)
    lines = [table.header, ["---", "---", *("---:" for _ in table.header[2:])], *table.lines]
    return "\n\n".join(
        [
            f"## {record.scenario}",
            record.about,
            "\n".join(f"| {' | '.join(line)} |" for line in lines),
            *([_listed(failures_of(record))] if record.failures else []),
            _listed(conditions(record)),
        ]
    )


def _listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def conditions(record: Record) -> list[str]:
    """Return the conditions under which the figures were measured."""
    return [
        f"{record.date}; median (lowest to highest) of {_rounds(record)} rounds, ratios round by round",
        *(f"{name}: {about}" for name, about in record.targets.items()),
        "; ".join(f"{name} {value}" for name, value in record.machine.items()),
        "; ".join(f"{name} {value}" for name, value in record.parameters.items()),
    ]


def _rounds(record: Record) -> str:
    """Return how many rounds have figures, and how many were planned if that is more."""
    done, planned = len({sample.round for sample in record.samples}), record.parameters["rounds"]
    return str(done) if done == planned else f"{done} (of {planned})"


def failures_of(record: Record) -> list[str]:
    """Return one sentence for each failure."""
    return [f"round {f.round + 1}, {f.target}: {f.why}" for f in record.failures]


# --- files ----------------------------------------------------------------------------------------------------------


def write_report(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write `report.md`, `report.html` and the plots to `folder`, and return the paths of the pages."""
    plots = [draw_plots(record, folder) for record in records]
    pages = [folder / "report.md", folder / "report.html"]
    pages[0].write_text(markdown(records, plots))
    pages[1].write_text(html(records, plots))
    return pages


def html(records: Sequence[Record], plots: Sequence[Sequence[Path]]) -> str:
    """Return an HTML page that needs no other file."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    sections = [
        {
            "record": record,
            "table": make_table(record),
            "conditions": conditions(record),
            "failures": failures_of(record),
            "plots": [base64.b64encode(path.read_bytes()).decode() for path in pictures],
        }
        for record, pictures in zip(records, plots, strict=True)
    ]
    return environment.from_string(TEMPLATE.read_text()).render(sections=sections)
