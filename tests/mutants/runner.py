"""Makes a mutant in a private copy of the source, and looks for what catches it.

Each mutant meets the tests that are named for it, which take seconds, and then its simulation, a few hundred seeds of
it, which take minutes.  What caught it the last time can be tried before all that.
"""

from __future__ import annotations

import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live.server import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mutants.mutant import Mutant
    from tests.mutants.simulation import Simulation

MAX_CPU_SECONDS = 300  # of one command, for a mutant may spin; of a clock, since others may use the machine
MAX_SECONDS = 1800.0  # of one command that waits, and computes nothing
PACKAGES = ("runtime", "actors", "web", "bench", "tests")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "results")


def find_catch(mutant: Mutant) -> str | None:
    """Return what catches the mutant, as MUTANTS.md says it; None if nothing does."""
    with copy_with(mutant) as copy:
        return _test(copy, mutant.tests) or _simulate(copy, mutant.simulation, range(mutant.simulation.seeds))


def is_caught_by(mutant: Mutant, catch: str) -> bool:
    """Tell whether what caught the mutant once, in the words of MUTANTS.md, still does."""
    seed = re.search(r"\(seed (\d+)\)", catch)
    test = re.fullmatch(r"`(\S+)`", catch)
    with copy_with(mutant) as copy:
        if seed is not None:
            return _simulate(copy, mutant.simulation, range(int(seed[1]), int(seed[1]) + 1)) is not None
        return test is not None and _test(copy, [test[1]]) is not None


def is_quick(catch: str) -> bool:
    """Tell whether a catch of MUTANTS.md is one seed or one test, so that it can be tried by itself."""
    return catch.startswith("`") or "(seed " in catch


@contextmanager
def copy_with(mutant: Mutant) -> Iterator[Path]:
    """Yield a copy of the source in which the mutant's edit is made."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, copy / package, ignore=LEFT_OUT)
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = copy / mutant.path
        path.write_text(mutant.applied_to(path.read_text()))
        yield copy


def _simulate(copy: Path, simulation: Simulation, seeds: range) -> str | None:
    which = ("--first-seed", str(seeds.start), "--seeds", str(len(seeds)), "--fail-fast")
    said = _run(copy, "-m", simulation.module, *which)
    if said is None:
        return "simulation: it never ends"
    failed = re.search(r"^    seed (\d+): (\w+:)? ?(.*)$", said, re.MULTILINE)
    if failed is None:
        return None
    invariant = re.search(r"I\d+(?=: )", failed[3])
    what = invariant[0] if invariant else re.sub(r"[|`\[\]]", "", failed[3] or failed[2].rstrip(":"))[:60]
    return f"{what} (seed {failed[1]})"


def _test(copy: Path, tests: Sequence[str]) -> str | None:
    if not tests:
        return None
    said = _run(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    if said is None:
        return f"{tests[0]}: it never ends"
    failed = re.search(r"^FAILED (\S+)", said, re.MULTILINE)
    return f"`{failed[1].partition('[')[0]}`" if failed else None


def _run(copy: Path, *arguments: str) -> str | None:
    """Return what a Python of its own prints, None if it does not come to an end.

    Raises:
        RuntimeError: it could not even start.
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env=environment() | {"PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
            preexec_fn=_bound_cpu,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if "scenarios" not in done.stdout and "passed" not in done.stdout and "failed" not in done.stdout:
        raise RuntimeError(f"the mutant does not run: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout


def _bound_cpu() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 10))
