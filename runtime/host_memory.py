"""The host's memory."""

from __future__ import annotations

import os


def available_memory() -> int:
    """Bytes that could be used now without swapping, as far as the system says."""
    try:
        with open("/proc/meminfo") as meminfo:
            fields = dict(line.split(":", 1) for line in meminfo)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except FileNotFoundError:  # not Linux: count half of what is installed as free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
