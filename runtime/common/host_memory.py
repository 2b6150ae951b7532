"""The host's memory: how much of it can be used, within a container's limit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def available_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Return the bytes that could be used now without swapping, as far as the system says.

    A container's limit counts, for a process that exceeds it is killed.  Only control groups of version 2 are read.
    """
    known = _known_available(proc, cgroups)
    # Elsewhere than on Linux, half of what is installed counts as free.
    return _installed() // 2 if known is None else known


def host_memory_limit(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Return the bytes beyond which nothing fits for certain: what is available, or installed where that is unknown."""
    known = _known_available(proc, cgroups)
    return _installed() if known is None else known


def _known_available(proc: Path, cgroups: Path) -> int | None:
    """Return the bytes available; None where the system is not Linux."""
    try:
        free = _fields(proc / "meminfo")["MemAvailable:"] * 1024
    except FileNotFoundError:
        return None
    return max(0, min([free, *_left_by_groups(proc, cgroups)]))


def _installed() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_by_groups(proc: Path, cgroups: Path) -> Iterator[int]:
    """Yield what each control group that this process is in, and that has a limit, leaves it."""
    groups = proc / "self/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        if line.startswith("0::/"):
            group = cgroups / line.removeprefix("0::/")
            for folder in (group, *group.parents):
                limit = folder / "memory.max"
                if limit.is_file() and (bound := limit.read_text().strip()) != "max":
                    files = _fields(folder / "memory.stat")  # pages of files are reclaimed when memory runs short
                    reclaimable = files["active_file"] + files["inactive_file"]
                    yield int(bound) - int((folder / "memory.current").read_text()) + reclaimable


def _fields(path: Path) -> dict[str, int]:
    """Parse the lines of a file, each a name, a number, and perhaps a unit."""
    return {name: int(number) for name, number, *_ in map(str.split, path.read_text().splitlines())}
