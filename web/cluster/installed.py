"""Check of whether Dynamo is installed."""

from __future__ import annotations

from importlib.util import find_spec

from runtime.errors import CedeError

MISSING = (
    "Dynamo is not installed: pip install 'cede[cluster]', which is for Linux.  On other systems start several "
    "`cede serve` and put smg in front: smg launch --worker-urls URL URL --policy cache_aware"
)


class ClusterUnavailable(CedeError):
    """There is no cluster to be had on this machine."""


def require_dynamo() -> None:
    """Raise ClusterUnavailable where Dynamo is not installed."""
    if find_spec("dynamo") is None or find_spec("dynamo._core") is None:
        raise ClusterUnavailable(MISSING)
