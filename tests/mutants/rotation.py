"""Choice of the mutants that a run of the tests kills: a few, and others with each commit."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.mutants import page
from tests.mutants.runner import is_quick
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from tests.mutants.mutant import Mutant

FEW = 6


def choose(key: str, count: int = FEW) -> list[Mutant]:
    """Return the mutants for `key`: the same for the same key, and each as often as any other over many keys.

    Those whose catch is that something never ends are left to `python -m tests.mutants`, which has the time.
    """
    caught = page.read()
    quick = [mutant for mutant in MUTANTS if is_quick(caught.get(mutant.name, ""))]
    return random.Random(key).sample(quick, min(count, len(quick)))
