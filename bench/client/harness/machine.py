"""A description of the machine that the benchmarks run on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform

from runtime.common.processor import processor_name


def describe_machine() -> dict[str, str]:
    """Return processor, cores, memory, system and versions, by name."""
    import psutil  # `cede bench --help` works without it

    description = {
        "processor": processor_name(),
        "cores": f"{psutil.cpu_count(logical=False) or '?'} physical, {os.cpu_count()} logical",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
    }
    return description | {name: importlib.metadata.version(name) for name in ("cede", "httpx", "trio")}


def today() -> str:
    """Return the date and the time in UTC, to the minute."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
