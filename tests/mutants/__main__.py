"""Kills mutants, and says what killed each.

python -m tests.mutants                 all of them
python -m tests.mutants -k draft        those with that in their name, or in the path of the file that they change
python -m tests.mutants --write         and what caught them goes to tests/mutants/MUTANTS.md
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
    parser.add_argument("-k", dest="word", default="", help="only mutants with this in their name or path")
    parser.add_argument("--write", action="store_true", help="write what caught them into the table")
    options = parser.parse_args(arguments)
    caught: dict[str, str | None] = {}
    for mutant in MUTANTS:
        if options.word in mutant.name or options.word in mutant.path:
            caught[mutant.name] = find_catch(mutant)
            print(page.row(mutant, caught[mutant.name]), flush=True)
    if options.write:
        page.write(caught)
    return 1 if None in caught.values() else 0


if __name__ == "__main__":
    sys.exit(main())
