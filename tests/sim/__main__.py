"""Many scenarios, each fixed by one integer.

python -m tests.sim --seeds 10000                   seeds 0 to 9999
python -m tests.sim --seeds 500 --first-seed 80000  ground that nobody trod
python -m tests.sim --seed 1234                     one of them again, with what it consists of
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import pprint
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.sim.figures import shares
from tests.sim.play import Tally, play
from tests.sim.scenario import draw

BATCH = 50  # scenarios that a process takes at a time
SHOWN, LISTED = 2, 100  # failures, with and without their tracebacks
COLLECT_AT = 200_000  # objects: at Python's 700, a quarter of the time goes to looking for cycles


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that failed."""

    seed: int
    what: str
    where: str

    @classmethod
    def of(cls, seed: int, error: Exception) -> Failure:
        """Return what `play` raised, without the groups around it."""
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        return cls(seed, f"{type(inner).__name__}: {inner}", "".join(traceback.format_exception(error)))

    def __str__(self) -> str:
        """Return where it failed, and how to see it again."""
        return f"{self.where}\nseed {self.seed} failed.  To see it again:\n\n    {replay(self.seed)}\n"


def replay(seed: int) -> str:
    """The command that plays one seed again."""
    return f"python -m tests.sim --seed {seed}"


def play_seed(seed: int) -> Tally:
    """Play one seed; what it raises says how to see it again."""
    try:
        return play(draw(seed)).tally
    except BaseException as error:
        error.add_note(f"To see it again: {replay(seed)}")
        raise


def play_seeds(seeds: Sequence[int]) -> tuple[Tally, list[Failure]]:
    """Play them in turn, and go on after a failure."""
    tally, failures = Tally(), list[Failure]()
    for seed in seeds:
        try:
            tally.add(play(draw(seed)).tally)
        except Exception as error:
            failures.append(Failure.of(seed, error))
    return tally, failures


def play_in_processes(seeds: range, jobs: int) -> Iterator[tuple[Tally, list[Failure]]]:
    """The same in batches, in so many processes; each batch's result as it comes."""
    batches = [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]
    if jobs == 1:
        yield from map(play_seeds, batches)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=quieten) as pool:
        yield from pool.imap_unordered(play_seeds, batches)


def quieten() -> None:
    """Every planted fault would be logged, and every few objects cycles would be looked for."""
    logging.getLogger("cede").setLevel(logging.CRITICAL + 1)
    gc.set_threshold(COLLECT_AT)


@contextmanager
def quiet() -> Iterator[None]:
    """As `quieten`, for a while: what this process does next may have something to say."""
    level, thresholds = logging.getLogger("cede").level, gc.get_threshold()
    quieten()
    try:
        yield
    finally:
        logging.getLogger("cede").setLevel(level)
        gc.set_threshold(*thresholds)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="play this one, and say what it consists of")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    return _many(seeds, options.jobs, fail_fast=options.fail_fast)


def _one(seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    scenario = draw(seed)
    pprint.pprint(scenario, width=120)
    played = play(scenario)
    _report(played.tally)
    print(f"digest {played.digest}")
    return 0


def _many(seeds: range, jobs: int, *, fail_fast: bool) -> int:
    started = time.perf_counter()
    tally, failures = Tally(), list[Failure]()
    with quiet():
        for some, failed in play_in_processes(seeds, jobs):
            tally.add(some)
            failures += failed
            if failures and fail_fast:
                break
            if sys.stderr.isatty():
                print(f"\r{tally.scenarios} of {len(seeds)}", end="", file=sys.stderr)
    seconds = time.perf_counter() - started
    _report(tally)
    print(f"time        {seconds:.1f} s, {60 * tally.scenarios / seconds:.0f} scenarios a minute")
    for failure in failures[:SHOWN]:
        print(f"\n{failure}")
    if failures:
        print(f"{len(failures)} failed:")
    for failure in failures[:LISTED]:
        print(f"    seed {failure.seed}: {failure.what[:200]}")
    return 1 if failures else 0


def _report(tally: Tally) -> None:
    print(f"scenarios   {tally.scenarios}, {tally.virtual_seconds:.0f} virtual seconds")
    print(f"requests    {tally.requests}; refused: {_counts(tally.refused)}")
    print(f"generations {_counts(tally.ended)}")
    print(f"steps       {tally.steps} of the target, {tally.draft_steps} of the drafter, {tally.moves} moves of KV")
    print(f"arena       {_counts(tally.places)}")
    print(f"preemptions {_counts(tally.preemptions)}")
    print(f"drawn       in so many scenarios (and seen): {shares.line(tally.drawn, tally.seen, tally.scenarios)}")
    print(f"cancels     {tally.cancels.total()}: {_counts(tally.cancels)}")
    print(f"because of  {_counts(tally.reasons)}")
    print(f"lies        {_counts(tally.lies)}")
    print(f"faults      {tally.faults.total()}: {_counts(tally.faults)}")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common() if count) or "none"


if __name__ == "__main__":
    from tests.sim.__main__ import main as importable  # what is pickled for other processes must be found there by name

    sys.exit(importable())
