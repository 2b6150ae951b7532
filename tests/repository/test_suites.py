"""The table of suites names what is there, and no test is in none of them."""

from __future__ import annotations

from pathlib import Path

from tests.suites import IN, SUITES, is_in_suite

TESTS = Path(__file__).parents[1]


def test_each_path_of_the_table_exists() -> None:
    assert [path for path in IN if not (TESTS / path).exists()] == []


def test_each_file_is_quick_or_of_the_rest() -> None:
    files = [file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")]
    assert [file for file in files if [is_in_suite(file, suite) for suite in SUITES].count(True) != 2] == []


def test_what_stands_nearest_decides() -> None:
    assert is_in_suite("live/cancels/test_stall.py", "quick")
    assert not is_in_suite("live/cancels/test_shutdown.py", "quick")
    assert is_in_suite("live/cancels/test_shutdown.py", "rest")
