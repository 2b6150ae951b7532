"""Which mutants a run of the test suite kills: a few, and others with each commit."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

from tests.live.server import ROOT
from tests.mutants import page
from tests.mutants.runner import is_quick
from tests.mutants.table import MUTANTS

if TYPE_CHECKING:
    from tests.mutants.mutant import Mutant

FEW = 6


def current_commit() -> str:
    """Return the commit that is checked out, or a fixed word where there is no git."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return done.stdout.strip()


def choose(key: str, count: int = FEW) -> list[Mutant]:
    """Return the mutants for `key`: the same for the same key, and each as often as any other over many keys.

    Those whose catch is that something never ends are left to `python -m tests.mutants`, which has the time.
    """
    caught = page.read()
    quick = [mutant for mutant in MUTANTS if is_quick(caught.get(mutant.name, ""))]
    return random.Random(key).sample(quick, min(count, len(quick)))
