"""Large files of the hub, fetched so that a download which was cut off goes on where it was.

The hub's client begins each file anew.  So what is large is fetched here, by the client's own functions, into the
client's cache, under the name that its content has there; the client finds it and does the rest.

    CACHE/models--org--name/blobs/<sha256>              the content, once its SHA-256 is the one that the hub says
    CACHE/models--org--name/blobs/<sha256>.incomplete   what has come of it; locked (flock) by whoever fetches it
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

from runtime.common.file_lock import lock_file
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.store.progress import Progress

LARGEST = 50 * 10**9  # bytes; the hub sends larger files in pieces alone, which its client asks for


def fetch_large(repository: str, file: str, size: int, sha256: str, progress: Progress) -> None:
    """Put a file's content into the hub's cache, unless it is there or larger than `LARGEST`.

    Args:
        repository: `org/name`.
        file: its name there.
        size: of it, bytes.
        sha256: of it, as the hub says.
        progress: is told how far it is verified; the client draws a bar for what comes.

    Raises:
        CheckpointError: what has come is another content; it is removed.
        Exception: whatever the hub's client raises.
    """
    blob = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "blobs" / sha256
    if size > LARGEST or blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{sha256}.incomplete")
    with partial.open("a+b") as target:
        lock_file(target.fileno())
        if blob.exists() or not partial.exists():  # another process has had it in hand meanwhile
            return
        if (done := os.fstat(target.fileno()).st_size) > size:
            target.truncate(done := 0)
        if done:
            progress.say(f"going on with {file}")
        http_get(
            hf_hub_url(repository, file),
            target,
            resume_size=done,
            headers=build_hf_headers(),
            expected_size=size,
            displayed_filename=file,
        )
        target.flush()
        found = _sha256(target, file, size, progress)
        if found != sha256:
            partial.unlink()
            raise CheckpointError(
                f"{file}: its SHA-256 is {found}, and the hub says {sha256}; it was removed: download it again"
            )
        os.fsync(target.fileno())
        partial.rename(blob)


def _sha256(opened: BinaryIO, file: str, size: int, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    opened.seek(0)
    while part := opened.read(1 << 20):
        digest.update(part)
        done += len(part)
        progress.advance(f"verifying {file}", done, size)
    return digest.hexdigest()
