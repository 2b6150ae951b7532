"""What the benchmarks ran on, in words."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

import psutil


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory, system and versions, by name."""
    about = {
        "processor": _processor(),
        "cores": f"{psutil.cpu_count(logical=False) or '?'} physical, {os.cpu_count()} logical",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
    }
    return about | {name: importlib.metadata.version(name) for name in ("cede", "httpx", "trio")}


def today() -> str:
    """The date, and the time in UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
