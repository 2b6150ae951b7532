"""API keys: who may use the server, under which name, and within which limits.

Only digests of them are kept, so that no log, traceback or message can show one.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from werkzeug.datastructures import Headers


class KeyRefused(CedeError):
    """A request has none of the server's keys."""

    status = 401
    kind = "invalid_request_error"
    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__("Missing or incorrect API key.")


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of one key; None for no limit of its own.

    Attributes:
        requests: at a time.
        queue_share: of the places in the queue, from 0 (it never waits) to 1.
        tokens_per_minute: that are computed, of prompts and of answers.
        weight: of its share of the device among those of the same priority; that of a key without one is 1.
    """

    requests: int | None = None
    queue_share: float | None = None
    tokens_per_minute: int | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of which only the digest is known.

    Attributes:
        digest: SHA-256 of the key.
        name: of whoever has it; what they ask, and what is kept for them, is theirs by this name.
        admin: whether it sees and cancels what others ask, too.
        limits: of what it may take.
    """

    digest: bytes
    name: str
    admin: bool = False
    limits: KeyLimits = field(default_factory=KeyLimits)

    def may_see(self, owner: str | None) -> bool:
        """Return whether a request of `owner` is this key's to see and to cancel."""
        return self.admin or owner == self.name


class KeyRing:
    """The keys that are served.

    Args:
        keys: to begin with.
    """

    def __init__(self, keys: Iterable[ApiKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._keys)

    def replace(self, keys: Iterable[ApiKey]) -> None:
        """Serve these keys from now on, and no others."""
        self._keys = tuple(keys)

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


def plain_key(key: bytes) -> ApiKey:
    """Return a key that was given as it is, under a name that is the same in the next run, whatever other keys are."""
    digest = digest_of(key)
    return ApiKey(digest, f"key-{digest_of(b'name of ' + digest).hex()[:8]}")


def digest_of(key: bytes) -> bytes:
    """Return the digest by which a key is known.

    It is neither salted nor slow.  Those protect passwords, which can be guessed; a key of 256 random bits cannot, and
    each request is to be checked in microseconds.
    """
    return hashlib.sha256(key).digest()
