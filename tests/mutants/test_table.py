"""The mutants follow the source, each is in MUTANTS.md, and each has its turn."""

from __future__ import annotations

import ast

import pytest

from tests.live.server import ROOT
from tests.mutants import page
from tests.mutants.mutant import Mutant
from tests.mutants.rotation import FEW, choose
from tests.mutants.table import MUTANTS


def test_each_edit_can_be_made() -> None:
    wrong = list[str]()
    for mutant in MUTANTS:
        source = (ROOT / mutant.path).read_text()
        try:
            edited = mutant.applied_to(source)
            is_same = edited == source or (mutant.path.endswith(".py") and _tree(edited) == _tree(source))
        except (ValueError, SyntaxError) as why:
            wrong.append(f"{mutant.name}: {why}")
        else:
            wrong += [f"{mutant.name}: changes nothing"] * is_same
    assert wrong == []


def test_each_names_tests_that_are_there() -> None:
    named = {test.partition("::")[0] for mutant in MUTANTS for test in mutant.tests}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def _tree(source: str) -> str:
    return ast.dump(ast.parse(source))


def test_one_whose_text_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 times"):
        Mutant("no such", "runtime/step/step.py", "no such text", "").applied_to("some text")


def test_each_is_in_the_table() -> None:
    caught = page.read()
    assert list(caught) == [mutant.name for mutant in MUTANTS]
    assert "**nothing**" not in caught.values()


def test_each_has_its_turn() -> None:
    assert choose("a") == choose("a")
    met = {mutant.name for number in range(200) for mutant in choose(str(number))}
    assert len(choose("a")) == FEW
    assert len(met) > len(MUTANTS) * 0.9
