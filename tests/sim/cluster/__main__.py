"""Many clusters, each fixed by one integer.

python -m tests.sim.cluster --seeds 2000                   seeds 0 to 1999
python -m tests.sim.cluster --seeds 500 --first-seed 80000  ground that nobody trod
python -m tests.sim.cluster --seed 1234                    one of them again, with what it consists of
"""

from __future__ import annotations

import argparse
import logging
import pprint
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.sim.__main__ import quiet
from tests.sim.cluster.play import Tally, play
from tests.sim.cluster.scenario import draw

SHOWN, LISTED = 2, 100  # failures, with and without their tracebacks


def play_seeds(seeds: Iterable[int], *, fail_fast: bool = False) -> tuple[Tally, dict[int, Exception]]:
    """Play them in turn; returns what happened, and what was raised, by seed."""
    tally, failures = Tally(), dict[int, Exception]()
    with quiet():
        for seed in seeds:
            try:
                tally.add(play(draw(seed)).tally)
            except Exception as error:
                failures[seed] = error
                if fail_fast:
                    break
    return tally, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="play this one, and say what it consists of")
    parser.add_argument("--seeds", type=int, default=500, help="how many to play")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed)
    started = time.perf_counter()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    tally, failures = play_seeds(seeds, fail_fast=options.fail_fast)
    seconds = time.perf_counter() - started
    _report(tally)
    print(f"time        {seconds:.1f} s, {60 * tally.scenarios / seconds:.0f} scenarios a minute")
    for seed, error in list(failures.items())[:SHOWN]:
        print("".join(traceback.format_exception(error)))
        print(f"seed {seed} failed.  To see it again:\n\n    python -m tests.sim.cluster --seed {seed}\n")
    for seed, error in list(failures.items())[:LISTED]:
        print(f"    seed {seed}: {_innermost(error)[:300]}")
    return 1 if failures else 0


def _one(seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    scenario = draw(seed)
    pprint.pprint(scenario, width=120)
    played = play(scenario)
    _report(played.tally)
    print(f"digest {played.digest}")
    return 0


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _report(tally: Tally) -> None:
    print(f"scenarios   {tally.scenarios}, {tally.virtual_seconds:.0f} virtual seconds")
    print(f"requests    {_counts(tally.ended)}")
    print(f"moved       because of {_counts(tally.moved)}")
    print(f"troubles    {_counts(tally.troubles)}")
    print(f"traffic     {tally.messages} messages, {tally.block_events} events of blocks; {tally.steps} steps")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
