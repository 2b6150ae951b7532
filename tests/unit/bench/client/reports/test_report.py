"""Tables and pages of the benchmark's figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.client.harness.figures import (
    Better,
    Failure,
    Figure,
    Sample,
    Spread,
    advantage,
    summarise,
)
from bench.client.reports.report import format_number, make_table, markdown, write_report
from tests.unit.bench.client.records import RATE, WAIT, record, rounds


def test_a_row_has_medians_ranges_and_ratios_of_each_round() -> None:
    (row,) = summarise(record(*rounds(RATE, ours=[10, 30, 20], theirs=[5, 10, 40])))
    assert row.spreads == {"ours": Spread(20, 10, 30), "theirs": Spread(10, 5, 40)}
    assert row.advantages == {"theirs": Spread(2, 0.5, 3)}  # 2, 3, 0.5: not the ratio of the medians


def test_less_is_better_for_a_wait() -> None:
    assert advantage(WAIT, replace(WAIT, value=6.0)) == pytest.approx(3)
    assert advantage(RATE, replace(RATE, value=5.0)) == pytest.approx(2)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (replace(WAIT, value=-0.01), WAIT),
        (WAIT, replace(WAIT, value=0.0)),
        (replace(WAIT, bounded=True), WAIT),
        (replace(WAIT, better=Better.NEITHER), WAIT),
    ],
)
def test_no_ratio_where_it_means_nothing(ours: Figure, theirs: Figure) -> None:
    assert advantage(ours, theirs) is None


def test_only_rounds_that_both_have_are_compared() -> None:
    samples = [s for s in rounds(RATE, ours=[10, 20], theirs=[5, 5]) if (s.target, s.round) != ("theirs", 0)]
    (row,) = summarise(record(*samples))
    assert row.advantages == {"theirs": Spread(4, 4, 4)}


def test_one_round_without_a_ratio_leaves_none() -> None:
    (row,) = summarise(record(*rounds(WAIT, ours=[1, -0.1], theirs=[2, 2])))
    assert row.advantages == {}


def test_a_measurement_that_was_given_up_shows_as_a_bound() -> None:
    samples = [Sample("ours", 0, WAIT), Sample("theirs", 0, replace(WAIT, value=60.0, bounded=True))]
    (line,) = make_table(record(*samples)).lines
    assert line == ["wait [s] ↓", "", "2.00", "≥ 60.0", "≥ 30.0"]


def test_a_figure_that_one_target_lacks() -> None:
    (line,) = make_table(record(Sample("ours", 0, WAIT))).lines
    assert line[2:] == ["2.00", "-", "-"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234.5, "1234"), (99.94, "99.9"), (3.14159, "3.14"), (0.0314, "0.031"), (-0.0049, "-0.005")],
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert format_number(value) == shown


def test_markdown_tells_the_conditions_and_the_failures() -> None:
    made = record(*rounds(RATE, ours=[10, 20], theirs=[5, 10]))
    made.failures.append(Failure("theirs", 1, "it fell over"))
    page = markdown([made])
    assert "| decode [tokens/s] ↑ | 1 stream | 15.0 (10.0 to 20.0) | 7.50 (5.00 to 10.0) | 2.00 |" in page
    assert "round 2, theirs: it fell over" in page
    assert "all about ours" in page
    assert "cores 2" in page


def test_the_report_is_a_page_with_its_plots(tmp_path: Path) -> None:
    cases = [replace(RATE, case=f"{n} streams", x=n) for n in (1, 2)]
    samples = [sample for case in cases for sample in rounds(case, ours=[1, 2], theirs=[2, 3])]
    made = replace(record(*samples), about="<b> & more")
    pages = write_report([made], tmp_path)
    assert [page.name for page in pages] == ["report.md", "report.html"]
    assert (tmp_path / "trial-decode.png").read_bytes().startswith(b"\x89PNG")
    assert "![trial-decode](trial-decode.png)" in pages[0].read_text()
    html = pages[1].read_text()
    assert "data:image/png;base64," in html
    assert "&lt;b&gt; &amp; more" in html
