"""A few of the mutants are killed in each run; `--rotation` chooses others.

That all of them are caught, and by what, is in MUTANTS.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.mutants import __main__ as command
from tests.mutants import page
from tests.mutants.mutant import Mutant
from tests.mutants.rotation import choose
from tests.mutants.runner import find_catch, is_caught_by
from tests.mutants.table import MUTANTS
from tests.rotation import rotation

if TYPE_CHECKING:
    import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chosen" in metafunc.fixturenames:
        metafunc.parametrize("chosen", choose(rotation(metafunc.config)), ids=lambda mutant: mutant.name)


def test_one_of_the_few_is_killed(chosen: Mutant) -> None:
    """By what killed it when MUTANTS.md was written; where the source has moved on, by anything."""
    assert is_caught_by(chosen, page.read()[chosen.name]) or find_catch(chosen) is not None


def test_one_that_changes_nothing_is_not_killed() -> None:
    unchanged = next(mutant for mutant in MUTANTS if "(seed 0)" in page.read()[mutant.name])
    harmless = Mutant("harmless", unchanged.path, unchanged.old, unchanged.old)
    assert not is_caught_by(harmless, page.read()[unchanged.name])


def test_a_row_is_stale_that_is_missing_or_catches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[str]()

    def catches(mutant: Mutant, catch: str) -> bool:
        tried.append(catch)
        return catch == "I3 (seed 1)"

    monkeypatch.setattr(command, "is_caught_by", catches)
    rows = ["I3 (seed 1)", "I3 (seed 2)", "`tests/a.py::test_b`", "simulation: it never ends", None]
    assert [command.is_stale(MUTANTS[0], row) for row in rows] == [False, True, True, False, True]
    assert tried == rows[:3], "what takes minutes is not tried"
