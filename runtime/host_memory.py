"""The host's memory."""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")  # in a container its own


def available_memory() -> int:
    """Bytes that could be used now without swapping, as far as the system says, and a container's limit allows."""
    free = _available_on_host()
    left = _left_of_limit(CGROUPS, "memory.max", "memory.current")
    if left is None:  # cgroups of version 1; where there is no limit, the number is larger than any memory
        left = _left_of_limit(CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
    return free if left is None else max(0, min(free, left))


def _available_on_host() -> int:
    try:
        with open("/proc/meminfo") as meminfo:
            fields = dict(line.split(":", 1) for line in meminfo)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except FileNotFoundError:  # not Linux: count half of what is installed as free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _left_of_limit(folder: Path, limit: str, used: str) -> int | None:
    """What a control group may still use, its page cache being given back; None where it has no limit."""
    try:
        fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        cached = int(fields["inactive_file"]) + int(fields["active_file"])
        return int((folder / limit).read_text()) - int((folder / used).read_text()) + cached
    except (OSError, ValueError, KeyError):  # no such file, or "max"
        return None
