"""Settings of Dynamo by variables of its own: it has no other way for these."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from web.process.options import Cluster

BEAT_SECONDS = 2.0  # between two signs of life of a stream on which nothing comes
SILENCE_SECONDS = 10
"""Of a stream without a sign of life, after which its worker is taken to be dead; several beats.  After twice as many
the front door ends the stream, and says nothing of an error."""
LEASE_SECONDS = 75  # in etcd: for so long it may be away, and so long is a worker that died still to be found
LOOPBACK = "127.0.0.1"
ADDRESSES = ("DYN_TCP_RPC_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_EVENT_PLANE_HOST")
"""Where Dynamo's processes listen for one another; nobody has to say who he is there."""


def tell_dynamo(cluster: Cluster, environment: MutableMapping[str, str]) -> None:
    """Set the variables that the options ask for, before Dynamo is imported; those that are set already stay.

    With discovery by files all processes are taken to be on this machine, so they listen on loopback alone.
    """
    if cluster.discovery_dir is not None:
        environment["DYN_FILE_KV"] = str(cluster.discovery_dir.absolute())
    if cluster.discovery == "file":
        for name in ADDRESSES:
            environment.setdefault(name, LOOPBACK)
    environment.setdefault("ETCD_LEASE_TTL", str(LEASE_SECONDS))
    environment.setdefault("DYN_LOG", "error")
    environment.setdefault("DYN_SDK_DISABLE_ANSI_LOGGING", "1")
    environment.setdefault("DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS", str(SILENCE_SECONDS))
    environment.setdefault("DYN_SELF_HOST_METADATA", "0")


def discovery_folder(environment: Mapping[str, str]) -> Path:
    """Return where Dynamo keeps the entries of discovery by files."""
    return Path(environment.get("DYN_FILE_KV") or Path(tempfile.gettempdir(), "dynamo_store_kv"))


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
