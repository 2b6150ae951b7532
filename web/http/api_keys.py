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
    """The digests of the keys `given`, and of those in a file, one a line.  Raises ApiKeyError."""
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
    """Whether a request with this `Authorization` header has one of the keys; how long it takes does not say which."""
    scheme, _, key = authorization.partition(" ")
    given = _digest(key.strip().encode("latin-1"))  # as bytes become headers
    alike = [hmac.compare_digest(given, digest) for digest in digests]
    return scheme.lower() == "bearer" and any(alike)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
