"""The processes of a server's ranks."""

from __future__ import annotations

import psutil

from tests.live.server import Server

TWO = ("--tensor-parallel", "2")
MOST_LAYERS = 3  # two, and one that may end between the moment of a cancel and its mark


def ranks_of(server: Server) -> list[psutil.Process]:
    """The other ranks' processes."""
    return [child for child in psutil.Process(server.pid).children() if "runtime.loading.ranks" in child.cmdline()]


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process is gone, or waits to be buried."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
