"""Kills mutants, and says what killed each.

python -m tests.mutants                 all of them
python -m tests.mutants -k draft        those with that in their name, or in the path of the file that they change
python -m tests.mutants --write         and what caught them goes to tests/mutants/MUTANTS.md
python -m tests.mutants --stale --write those alone whose row is not there, or names what does not catch them any more
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.mutants import page
from tests.mutants.runner import find_catch, is_caught_by, is_quick
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.mutant import Mutant


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("-k", dest="word", default="", help="only mutants with this in their name or path")
    parser.add_argument("--stale", action="store_true", help="only those that no row of the table catches any more")
    parser.add_argument("--write", action="store_true", help="write what caught them into the table")
    options = parser.parse_args(arguments)
    caught: dict[str, str | None] = {}
    rows = page.read()
    for mutant in MUTANTS:
        if options.word not in mutant.name and options.word not in mutant.path:
            continue
        if options.stale and not is_stale(mutant, rows.get(mutant.name)):
            continue
        caught[mutant.name] = find_catch(mutant)
        print(page.row(mutant, caught[mutant.name]), flush=True)
    if options.write:
        page.write(caught)
    return 1 if None in caught.values() else 0


def is_stale(mutant: Mutant, catch: str | None) -> bool:
    """Return whether a mutant has no row, or is not caught by the seed or the test that its row names.

    A row that names neither says that the simulation never ends; to try it takes minutes, and it counts as good.
    """
    return catch is None or (is_quick(catch) and not is_caught_by(mutant, catch))


if __name__ == "__main__":
    sys.exit(main())
