"""File descriptors: a connection takes one, and a process that has none left can neither accept nor read its model."""

from __future__ import annotations

import logging
import resource
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from web.limits import Limits

OTHERS = 128
"""Descriptors for all that is no connection: the model's files, KV on disk, listeners, connections being refused."""

logger = logging.getLogger("cede.web")


def fit_descriptors(limits: Limits) -> Limits:
    """`limits` with as many connections as the process may have descriptors for, after asking the system for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + OTHERS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has a bound of its own below an infinite hard limit
        most = soft
    if most >= wanted:
        return limits
    connections = max(1, most - OTHERS)
    logger.warning("at most %d connections, for want of file descriptors (ulimit -n)", connections)
    return replace(limits, connections=connections)
