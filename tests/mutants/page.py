"""MUTANTS.md: which mutants there are, and what caught each of them first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.live.server import ROOT
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mutants.mutant import Mutant

PAGE = ROOT / "tests" / "mutants" / "MUTANTS.md"
HEAD = """# Mutants, and who notices them

Each is a known-bad edit, made alone in a private copy of the source by `python -m tests.mutants --write`, which wrote
this table.  It meets the tests that are named for it, and where none of them fails the first few hundred seeds of
`python -m tests.sim`, or of `python -m tests.sim.cluster` for an edit of a cluster.  Named here is the test, or the
invariant that noticed it first, with the seed (`tests/sim/invariants.py`, and of clusters
`tests/sim/cluster/invariants.py`).  Each run of all tests kills a few of them again, by that.

| mutant | in | caught by |
|---|---|---|
"""


def row(mutant: Mutant, caught: str | None) -> str:
    """Return a mutant's line of the table; None says that nothing has caught it."""
    return f"| {mutant.name} | `{mutant.path}` | {caught or '**nothing**'} |"


def write(caught: Mapping[str, str | None]) -> None:
    """Replace the rows of these mutants, by name; of the others, those that there are stay."""
    known: dict[str, str | None] = {**read(), **caught}
    rows = [row(mutant, known[mutant.name]) for mutant in MUTANTS if mutant.name in known]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n")


def read() -> dict[str, str]:
    """Return what caught each mutant, by its name."""
    return dict(re.findall(r"^\| (.+?) \| `[^`|]+` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
