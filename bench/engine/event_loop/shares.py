"""A profile of one thread, added up by who has the code: a library, or one of cede's packages."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
LIBRARIES = "site-packages"
FUNCTIONS = 40
"""Functions that a table names."""

Function = tuple[str, int, str]


@contextmanager
def profiled() -> Iterator[cProfile.Profile]:
    """Profile the CPU time of this thread while the scope lasts."""
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    try:
        yield profiler
    finally:
        profiler.disable()


def owner(function: Function) -> str:
    """Return who has a function: one of cede's packages, such as `web/http`, a library, or `python`."""
    path = Path(function[0])
    if path.is_relative_to(ROOT):
        return "/".join(path.relative_to(ROOT).parts[:2])
    if LIBRARIES in path.parts:
        return path.parts[path.parts.index(LIBRARIES) + 1]
    return "python"


def is_builtin(function: Function) -> bool:
    """Return whether a function is C's; it has no place of its own."""
    return function[0] == "~"


def table(profiler: cProfile.Profile, requests: int) -> list[str]:
    """Return a profile's lines: microseconds and calls for a request, by owner, and then the dearest functions.

    The time of C's functions is that of who called them.
    """
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]  # typeshed has it not
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, float] = defaultdict(float)
    for function, (_, number, own, _, callers) in stats.items():
        shared = callers.items() if is_builtin(function) and callers else [(function, (0, number, own, own))]
        for caller, (_, times, of_it, _) in shared:
            seconds[owner(caller)] += of_it
            calls[owner(caller)] += times
    whole = sum(seconds.values())
    lines = [f"{1e6 * whole / requests:.0f} us and {sum(calls.values()) / requests:.0f} calls for a request"]
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        share = seconds[name] / whole
        lines.append(f"{share:6.1%} {1e6 * seconds[name] / requests:7.0f} us {calls[name] / requests:7.1f}  {name}")
    dearest = sorted(stats.items(), key=lambda entry: -entry[1][2])[:FUNCTIONS]
    for function, (_, number, own, below, _) in dearest:
        each = f"{1e6 * own / requests:7.0f} us own {1e6 * below / requests:7.0f} us in all"
        lines.append(f"{each} {number / requests:7.1f}  {function[0]}:{function[1]}:{function[2]}")
    return lines
