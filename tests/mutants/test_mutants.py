"""The mutants follow the source, and a few of them are killed in each run; `--mutants-of` says which.

That all of them are caught, and by what, is in MUTANTS.md.
"""

from __future__ import annotations

import ast

import pytest

from tests.live.server import ROOT
from tests.mutants import __main__ as command
from tests.mutants import page
from tests.mutants.mutant import Mutant
from tests.mutants.rotation import FEW, choose, current_commit
from tests.mutants.runner import find_catch, is_caught_by
from tests.mutants.table import MUTANTS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chosen" in metafunc.fixturenames:
        key = metafunc.config.getoption("--mutants-of") or current_commit()
        metafunc.parametrize("chosen", choose(key), ids=lambda mutant: mutant.name)


def test_one_of_the_few_is_killed(chosen: Mutant) -> None:
    """By what killed it when MUTANTS.md was written; where the source has moved on, by anything."""
    assert is_caught_by(chosen, page.read()[chosen.name]) or find_catch(chosen) is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_edit_can_be_made(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text()
    edited = mutant.applied_to(source)
    assert edited != source
    if mutant.path.endswith(".py"):
        assert ast.dump(ast.parse(edited)) != ast.dump(ast.parse(source))


def test_one_whose_text_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 times"):
        Mutant("no such", "runtime/step/step.py", "no such text", "").applied_to("some text")


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


def test_each_is_in_the_table() -> None:
    caught = page.read()
    assert list(caught) == [mutant.name for mutant in MUTANTS]
    assert "**nothing**" not in caught.values()


def test_each_has_its_turn() -> None:
    assert choose("a") == choose("a")
    met = {mutant.name for number in range(150) for mutant in choose(str(number))}
    assert len(choose("a")) == FEW
    assert len(met) > len(MUTANTS) * 0.9
