"""A hash of a model's files, for the names under which its keys and values are kept.

It is SHA-256 over each weight file, and over what the format says besides, such as config.json.  Files of 256 MiB and
less in all are hashed whole.  Hashing a larger model would delay the start, so the header and the first, middle and
last 4 KiB of each tensor are taken, and each file's modification time is hashed too: a fine-tune shows in the samples,
and an edit that they miss shows in the time.  The price is that a fresh copy of a large model has another fingerprint.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    # Offset and size of each part of a file: its header, and every tensor.
    Spans = Iterable[tuple[int, int]]

HASHED_WHOLE = 256 << 20  # bytes of weights; a second or less to read and hash
_SAMPLE = 4096  # bytes


def hash_files(parts: Sequence[bytes], files: Sequence[Path], spans: Callable[[Path], tuple[int, Spans]]) -> str:
    """Hash a model to 64 hex digits.

    Args:
        parts: what is hashed besides.
        files: the weight files; hashed in this order.
        spans: returns for a file the size of its header and the places of its tensors; asked for large models only.

    Raises:
        CheckpointError: a file is missing or broken.
    """
    digest = hashlib.sha256()
    for part in parts:
        _add(digest, part)
    try:
        whole = sum(path.stat().st_size for path in files) <= HASHED_WHOLE
        for path in files:
            with path.open("rb") as file:
                if whole:
                    _add(digest, hashlib.file_digest(file, "sha256").digest())
                else:
                    status = path.stat()
                    _add(digest, f"{status.st_mtime_ns} {status.st_size}".encode())
                    _add_samples(digest, file, *spans(path))
    except OSError as error:
        raise CheckpointError(f"{error.filename or files[0]}: cannot be read: {error}") from error
    return digest.hexdigest()


def _add_samples(digest: hashlib._Hash, file: BinaryIO, header: int, spans: Spans) -> None:
    _add(digest, file.read(header))
    for begin, size in sorted(spans):
        for offset in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(begin + offset)
            _add(digest, file.read(min(_SAMPLE, size - offset)))


def _add(digest: hashlib._Hash, part: bytes) -> None:
    """Add `part` after its length, so that no two lists of parts add up to the same bytes."""
    digest.update(len(part).to_bytes(8, "little") + part)
