"""API keys: who may use the server, and under which name.

Only digests of them are kept, so that no log, traceback or message can show one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of which only the digest is known.

    Attributes:
        digest: SHA-256 of the key.
        name: of whoever has it; what they ask, and what is kept for them, is theirs by this name.
        admin: whether it sees and cancels what others ask, too.
    """

    digest: bytes
    name: str
    admin: bool = False


class KeyRing:
    """The keys that are served."""

    def __init__(self, keys: Iterable[ApiKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        """Return how many keys there are; with none everybody is served."""
        return len(self._keys)

    def find(self, headers: Headers) -> ApiKey:
        """Return the key that a request has; the time taken does not tell which.

        Args:
            headers: of the request, of which `Authorization: Bearer` (RFC 6750) and Anthropic's `x-api-key` have a key.

        Raises:
            KeyRefused: neither of them is a key that is served.
        """
        scheme, _, key = headers.get("Authorization", "").partition(" ")
        bearer = key if scheme.lower() == "bearer" else ""
        found = [*self._matches(bearer), *self._matches(headers.get("x-api-key", ""))]
        if not found:
            raise KeyRefused
        return found[0]

    def _matches(self, given: str) -> list[ApiKey]:
        digest = digest_of(given.strip().encode("latin-1"))  # which is how bytes became the header's text
        matches = [hmac.compare_digest(digest, key.digest) for key in self._keys]  # with all of them
        return list(compress(self._keys, matches))


def read_keys(given: Iterable[str], file: Path | None) -> list[ApiKey]:
    """Return the keys that are to be served; each has its own name, which says nothing of the key.

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
    return list(dict.fromkeys(map(plain_key, keys)))


def plain_key(key: bytes) -> ApiKey:
    """Return a key that was given as it is, under a name that is the same in the next run, whatever other keys are."""
    digest = digest_of(key)
    return ApiKey(digest, f"key-{digest_of(b'name of ' + digest).hex()[:8]}")


def digest_of(key: bytes) -> bytes:
    """Return the digest by which a key is known."""
    return hashlib.sha256(key).digest()
