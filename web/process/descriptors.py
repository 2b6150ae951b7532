"""File descriptors: each connection takes one, and a process without any can neither accept nor read its model."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.common.units import counted

if TYPE_CHECKING:
    from web.process.limits import Limits

OTHER_DESCRIPTORS = 128
"""Descriptors for all but connections: the model's files, KV on disk, listeners, connections that are refused."""

logger = logging.getLogger("cede.web")


def fit_descriptors(limits: Limits, each: int = 1) -> Limits:
    """Raise the process's limit on file descriptors as far as needed, or lower the limit on connections.

    Args:
        limits: as configured.
        each: descriptors of a connection.

    Returns:
        `limits`, with no more connections than there are descriptors for.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = each * limits.connections + OTHER_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    available = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (available, hard))
    except (OSError, ValueError):  # macOS has a bound of its own below an infinite hard limit
        available = soft
    if available >= wanted:
        return limits
    connections = max(1, (available - OTHER_DESCRIPTORS) // each)
    logger.warning("at most %s, for want of file descriptors (ulimit -n)", counted(connections, "connection"))
    return replace(limits, connections=connections)
