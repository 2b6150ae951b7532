"""Kills mutants, and says what killed each.

python -m tests.mutants                 all of them
python -m tests.mutants -k draft        those with that in their name, or in the path of the file that they change
python -m tests.mutants --write         and what caught them goes to tests/mutants/MUTANTS.md
python -m tests.mutants --stale --write those alone whose row is not there, or names what does not catch them any more
python -m tests.mutants --jobs 2        two at a time
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
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
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at a time")
    options = parser.parse_args(arguments)
    rows = page.read()
    asked = [mutant for mutant in MUTANTS if options.word in mutant.name or options.word in mutant.path]

    def catch(mutant: Mutant) -> str | None:
        known = rows.get(mutant.name)
        return find_catch(mutant) if not options.stale or is_stale(mutant, known) else known

    caught: dict[str, str | None] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, found in zip(asked, pool.map(catch, asked), strict=True):
            caught[mutant.name] = found
            if not options.stale or found != rows.get(mutant.name):
                print(page.row(mutant, found), flush=True)
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
