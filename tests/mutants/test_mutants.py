"""The mutants follow the source: each old text is still there, once.  That they are caught is in MUTANTS.md."""

from __future__ import annotations

import ast

import pytest

from tests.live.server import ROOT
from tests.mutants.runner import MUTANTS, Mutant, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_edit_can_be_made(mutant: Mutant) -> None:
    ast.parse(mutated(mutant, (ROOT / mutant.path).read_text()))


def test_one_whose_text_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 times"):
        mutated(Mutant("no such", "runtime/step/step.py", "no such text", ""), "some text")


def test_each_is_in_the_table() -> None:
    table = (ROOT / "tests" / "mutants" / "MUTANTS.md").read_text()
    assert [mutant.name for mutant in MUTANTS if f"| {mutant.name} |" not in table] == []
    assert "**nothing**" not in table
