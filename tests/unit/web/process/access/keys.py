"""A key with limits, and a clock for them."""

from __future__ import annotations

from typing import Any

from web.process.access.api_keys import ApiKey, KeyLimits, digest_of


def key_of(**limits: Any) -> ApiKey:  # noqa: ANN401
    """Alice's key."""
    return ApiKey(digest_of(b"sk-1"), "alice", limits=KeyLimits(**limits))


class Clock:
    """Stands still unless a test moves it."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now
