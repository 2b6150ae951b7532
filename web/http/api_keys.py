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

    from werkzeug.datastructures import Headers


class ApiKeyError(CedeError):
    """There is no key where one was expected; the message says where."""


class KeyRefused(CedeError):
    """A request has none of the server's keys."""

    status = 401
    kind = "invalid_request_error"
    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__("Missing or incorrect API key.")


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


def is_authorized(headers: Headers, digests: Collection[bytes]) -> bool:
    """Return whether a request has one of the keys; the time taken does not tell which.

    Args:
        headers: of the request, of which `Authorization: Bearer` (RFC 6750) and Anthropic's `x-api-key` have a key.
        digests: of the keys.
    """
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    bearer = scheme.lower() == "bearer" and _is_known(key, digests)
    return _is_known(headers.get("x-api-key", ""), digests) or bearer


def _is_known(key: str, digests: Collection[bytes]) -> bool:
    given = _digest(key.strip().encode("latin-1"))  # which is how bytes became the header's text
    matches = [hmac.compare_digest(given, digest) for digest in digests]  # with all of them
    return any(matches)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
