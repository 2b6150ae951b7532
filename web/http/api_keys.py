"""API keys: who may use the server.

Only digests of them are kept, so that no log, traceback or message can show one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path


class ApiKeyError(CedeError):
    """There is no key where one was expected; the message says where."""


def read_keys(given: Iterable[str], file: Path | None) -> frozenset[bytes]:
    """Return the digests of API keys.

    Args:
        given: keys, as the command line has them.
        file: with more keys, one a line; None for no file.

    Raises:
        ApiKeyError: a key is empty, or the file holds none.
        OSError: the file cannot be read.
    """
    keys = [os.fsencode(key).strip() for key in given]
    if not all(keys):
        raise ApiKeyError("--api-key: the key is empty")
    if file is not None:
        lines = [stripped for line in file.read_bytes().splitlines() if (stripped := line.strip())]
        if not lines:
            raise ApiKeyError(f"{file}: there is no key in it")
        keys += lines
    return frozenset(map(_digest, keys))


def is_authorized(authorization: str, digests: Collection[bytes]) -> bool:
    """Return whether an `Authorization` header has one of the keys (RFC 6750); the time taken does not tell which.

    Args:
        authorization: the header's value.
        digests: of the keys.
    """
    scheme, _, key = authorization.partition(" ")
    given = _digest(key.strip().encode("latin-1"))  # which is how bytes became the header's text
    matches = [hmac.compare_digest(given, digest) for digest in digests]
    return scheme.lower() == "bearer" and any(matches)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
