"""What each API key takes of the server, and who gets no more for now.

A limit of tokens is a bucket that holds a minute's worth.  A request is let in while there is something in it, and what
it computes is taken out as it is computed: how much that will be, and how much of the prompt is cached, nobody knows
before.  So the bucket may go below empty, by what was let in; then nothing is let in until time has filled it again.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from runtime.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.core.events import Committed, Invalidated, Queued, Released
    from actors.core.slot_views import GenerationKey
    from web.access.api_keys import ApiKey, KeyLimits

RETRY_SECONDS = 1.0  # when to ask again for a place; nobody knows when one comes free


@dataclass(slots=True)
class _Used:
    """What one key has in use.

    Attributes:
        limits: as of its last request.
        requests: that are being served.
        tokens: that were taken out of the bucket and are not filled in again; never below 0.
        at: the time for which `tokens` is true, on the clock.
    """

    limits: KeyLimits
    at: float
    requests: int = 0
    tokens: float = 0.0


class KeyUsage:
    """Counts what keys use, by their names, and refuses what is beyond a key's limits.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    @contextmanager
    def admit(self, key: ApiKey) -> Iterator[None]:
        """Let one request in, which has its place while the scope lasts.

        Raises:
            RateLimited: the key has as many requests as it may have, or has used up its tokens.
        """
        used = self._current(key)
        limits = key.limits
        if limits.requests is not None and used.requests >= limits.requests:
            message = f"The API key {key.name} may have {limits.requests} requests at a time, and has them."
            raise RateLimited(message, retry_after=RETRY_SECONDS)
        if limits.tokens_per_minute is not None and (wait := _seconds_until(used, limits.tokens_per_minute, 1)) > 0:
            message = f"The API key {key.name} has used up its {limits.tokens_per_minute} tokens per minute."
            raise RateLimited(message, retry_after=wait)
        used.requests += 1
        try:
            yield
        finally:
            used.requests -= 1

    def charge(self, owner: str, tokens: int) -> None:
        """Take tokens that were computed for a key out of its bucket; a negative number puts some back."""
        used = self._used.get(owner)
        if used is not None and used.limits.tokens_per_minute is not None:
            self._refill(used)
            used.tokens = max(0.0, used.tokens + tokens)

    def headers(self, key: ApiKey) -> dict[str, str]:
        """Return what a key has left, in headers of OpenAI's names.

        There is no `x-ratelimit-reset-requests`: a place comes free when a request ends, and nobody knows when.
        """
        used, limits = self._current(key), key.limits
        told = {}
        if limits.requests is not None:
            told["x-ratelimit-limit-requests"] = str(limits.requests)
            told["x-ratelimit-remaining-requests"] = str(max(0, limits.requests - used.requests))
        if (most := limits.tokens_per_minute) is not None:
            told["x-ratelimit-limit-tokens"] = str(most)
            told["x-ratelimit-remaining-tokens"] = str(max(0, math.floor(most - used.tokens)))
            told["x-ratelimit-reset-tokens"] = f"{_seconds_until(used, most, most):.3f}s"
        return told

    def _current(self, key: ApiKey) -> _Used:
        """Return what a key has in use now."""
        used = self._used.get(key.name)
        if used is None:
            used = self._used[key.name] = _Used(key.limits, self._clock())
        self._refill(used)
        used.limits = key.limits
        return used

    def _refill(self, used: _Used) -> None:
        now, most = self._clock(), used.limits.tokens_per_minute
        used.tokens = 0.0 if most is None else max(0.0, used.tokens - (now - used.at) * most / 60)
        used.at = now


class TokenMeter(Observer):
    """Charges keys for what the engine computes for them and keeps.

    That is what was not cached of a prompt, and all tokens of an answer but the last, whose row nobody needs.  Drafts
    that did not stand are not charged, nor what is computed a second time because the device failed.

    Args:
        usage: is charged.
    """

    def __init__(self, usage: KeyUsage) -> None:
        self._usage = usage
        self._owners: dict[GenerationKey, str] = {}
        self._charged: dict[GenerationKey, int] = {}

    def queued(self, event: Queued) -> None:
        """Note whose a generation is."""
        if event.owner is not None:
            self._owners[event.key] = event.owner

    def committed(self, event: Committed) -> None:
        """Charge for rows of the target."""
        if not event.drafting and event.key in self._owners:
            self._charge(event.key, event.rows)

    def invalidated(self, event: Invalidated) -> None:
        """Take back what a failure has made worthless: it will be computed again."""
        if event.key in self._owners:
            self._charge(event.key, -self._charged.get(event.key, 0))

    def released(self, event: Released) -> None:
        """Forget a generation that has ended."""
        self._owners.pop(event.key, None)
        self._charged.pop(event.key, None)

    def _charge(self, key: GenerationKey, tokens: int) -> None:
        self._charged[key] = self._charged.get(key, 0) + tokens
        self._usage.charge(self._owners[key], tokens)


def _seconds_until(used: _Used, most: int, tokens: int) -> float:
    """Return the time until a bucket of `most` tokens a minute has so many in it, if nothing is taken out."""
    return max(0.0, (used.tokens + tokens - most) * 60 / most)
