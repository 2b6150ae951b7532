"""A cache as the hub's client lays it out: contents in `blobs`, links to them in `snapshots`, branches in `refs`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path


def cache_revision(
    cache: Path, repository: str, files: Mapping[str, bytes], *, revision: str = "0" * 40, kind: str = "models"
) -> Path:
    """Put a revision of a repository into a cache, as its main branch, and return its snapshot."""
    root = cache / f"{kind}--{repository.replace('/', '--')}"
    snapshot = root / "snapshots" / revision
    for name, content in files.items():
        blob = root / "blobs" / hashlib.sha256(content).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    (root / "refs").mkdir(exist_ok=True)
    (root / "refs" / "main").write_text(revision)
    return snapshot
