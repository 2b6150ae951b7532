"""Kills mutants, and says what killed each.

python -m tests.mutants                 all of them
python -m tests.mutants --write         and their table goes to tests/mutants/MUTANTS.md
python -m tests.mutants -k draft        those with that in their name
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.mutants import page
from tests.mutants.runner import find_catch
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("-k", dest="word", default="", help="only mutants with this in their name")
    parser.add_argument("--write", action="store_true", help="keep the table; only together with all mutants")
    options = parser.parse_args(arguments)
    if options.write and options.word:
        parser.error("--write is for the whole table")
    rows: list[str] = []
    survivors = 0
    for mutant in MUTANTS:
        if options.word in mutant.name:
            caught = find_catch(mutant)
            survivors += caught is None
            rows.append(page.row(mutant, caught))
            print(rows[-1], flush=True)
    if options.write:
        page.write(rows)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
