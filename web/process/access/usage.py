"""Usage of the server by each API key, and who gets no more for now.

A limit of tokens is a bucket that holds a minute's worth.  What a request may take at most is reserved before it is let
in; what it computes is taken out of the bucket as it is computed, and at its end the rest of the reservation is given
back, for instance what was cached of its prompt.  So the bucket goes below empty only by a request that is larger than
the whole bucket, which is let in when that is full, and by answers that nobody has bounded (`UNSAID_ANSWER`).  Then
nothing is let in until time has filled it again.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from runtime.common.units import counted
from runtime.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from actors.core.events import Committed, Invalidated, Queued, Released
    from actors.core.generation import GenerationRequest
    from actors.core.slot_views import GenerationKey
    from web.process.access.api_keys import ApiKey, KeyLimits

UNSAID_ANSWER = 1024
"""Tokens that are reserved for an answer whose request does not say how long it may become."""

RETRY_SECONDS = 1.0  # when to ask again for a place; nobody knows when one comes free


@dataclass(slots=True)
class _Reservation:
    """Tokens that a live request may take, and those of them that were taken already."""

    tokens: int
    charged: int = 0


@dataclass(slots=True)
class _Used:
    """Usage of one key.

    Attributes:
        limits: as of its last request.
        requests: that are being served.
        tokens: that were taken out of the bucket and are not filled in again; never below 0.
        at: the time for which `tokens` is true, on the clock.
        reservations: by the ids of the live requests.
    """

    limits: KeyLimits
    at: float
    requests: int = 0
    tokens: float = 0.0
    reservations: dict[str, _Reservation] = field(default_factory=dict)

    @property
    def reserved(self) -> int:
        """Tokens that live requests may still take."""
        return sum(max(0, held.tokens - held.charged) for held in self.reservations.values())


class KeyUsage:
    """Counts what keys use, by their names, and refuses what is beyond a key's limits.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    @contextmanager
    def admit(self, key: ApiKey) -> Iterator[Permit]:
        """Let one request in, which has its place while the scope lasts.

        Raises:
            RateLimited: the key has as many requests as it may have, or has used up its tokens.
        """
        used = self._current(key)
        limits = key.limits
        if limits.requests is not None and used.requests >= limits.requests:
            message = f"The API key {key.name} may have {counted(limits.requests, 'request')} at a time, and has them."
            raise RateLimited(message, retry_after=RETRY_SECONDS)
        if (most := limits.tokens_per_minute) is not None and _left(used, most) < 1:
            message = f"The API key {key.name} has used up its {counted(most, 'token')} per minute."
            raise RateLimited(message, retry_after=_retry_after(used, most, 1))
        used.requests += 1
        try:
            yield Permit(self, key)
        finally:
            used.requests -= 1

    @contextmanager
    def reserve(self, key: ApiKey, request_id: str, tokens: int) -> Iterator[None]:
        """Set tokens aside that a request may take while the scope lasts, at most a whole bucket.

        Raises:
            RateLimited: there are not so many left.
        """
        used, most = self._current(key), key.limits.tokens_per_minute
        if most is not None and (left := _left(used, most)) < min(tokens, most):
            message = (
                f"The API key {key.name} has {max(0, math.floor(left))} of its {most} tokens per minute left, and this "
                f"request may take {tokens}: its prompts, and `max_tokens` of each answer."
            )
            raise RateLimited(message, retry_after=_retry_after(used, most, min(tokens, most)))
        held = used.reservations[request_id] = _Reservation(tokens)
        try:
            yield
        finally:
            if used.reservations.get(request_id) is held:
                del used.reservations[request_id]

    def charge(self, owner: str, request_id: str, tokens: int) -> None:
        """Take tokens that were computed for a key out of its bucket; a negative number puts some back."""
        used = self._used.get(owner)
        if used is not None and used.limits.tokens_per_minute is not None:
            self._refill(used)
            used.tokens = max(0.0, used.tokens + tokens)
            if (held := used.reservations.get(request_id)) is not None:
                held.charged += tokens

    def headers(self, key: ApiKey) -> dict[str, str]:
        """Return what a key has left, in headers of OpenAI's names.

        A place comes free when a request ends, and nobody knows when: while one is taken, `x-ratelimit-reset-requests`
        says when it makes sense to look again.
        """
        used, limits = self._current(key), key.limits
        told = {}
        if limits.requests is not None:
            told["x-ratelimit-limit-requests"] = str(limits.requests)
            told["x-ratelimit-remaining-requests"] = str(max(0, limits.requests - used.requests))
            told["x-ratelimit-reset-requests"] = f"{RETRY_SECONDS if used.requests else 0.0:.3f}s"
        if (most := limits.tokens_per_minute) is not None:
            told["x-ratelimit-limit-tokens"] = str(most)
            told["x-ratelimit-remaining-tokens"] = str(max(0, math.floor(_left(used, most))))
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


class Permit:
    """One of the requests that a key has at a time; made by `KeyUsage.admit`."""

    def __init__(self, usage: KeyUsage, key: ApiKey) -> None:
        self._usage = usage
        self._key = key

    def reserve(self, asked: GenerationRequest, context: int) -> AbstractContextManager[None]:
        """Return the scope in which the tokens that a request may take are set aside.

        Args:
            asked: the request.
            context: tokens of the model's.

        Raises:
            RateLimited: when the scope is entered; the key has not so many left.
        """
        return self._usage.reserve(self._key, asked.id, most_tokens(asked, context))


class TokenMeter(Observer):
    """Charges keys for what the engine computes for them and keeps.

    That is what was not cached of a prompt, and all tokens of an answer.  Drafts that did not stand are not charged,
    nor what is computed a second time because the device failed.

    Args:
        usage: is charged.
    """

    def __init__(self, usage: KeyUsage) -> None:
        self._usage = usage
        self._queued: dict[GenerationKey, Queued] = {}
        self._charged: dict[GenerationKey, int] = {}

    def queued(self, event: Queued) -> None:
        """Note whose a generation is."""
        if event.owner is not None:
            self._queued[event.key] = event

    def committed(self, event: Committed) -> None:
        """Charge for rows of the target: each is a token that was read, and that of the prompt's end gives one more.

        An answer's tokens are read one step after they were drawn, but for the last, which nobody reads.
        """
        if not event.drafting and (queued := self._queued.get(event.key)) is not None:
            ends_prompt = event.start < queued.prompt_tokens <= event.start + event.rows
            self._charge(event.key, event.rows + ends_prompt)

    def invalidated(self, event: Invalidated) -> None:
        """Take back what a failure has made worthless: it will be computed again."""
        if event.key in self._queued:
            self._charge(event.key, -self._charged.get(event.key, 0))

    def released(self, event: Released) -> None:
        """Forget a generation that has ended."""
        self._queued.pop(event.key, None)
        self._charged.pop(event.key, None)

    def _charge(self, key: GenerationKey, tokens: int) -> None:
        self._charged[key] = self._charged.get(key, 0) + tokens
        if (owner := self._queued[key].owner) is not None:
            self._usage.charge(owner, key[0], tokens)


def most_tokens(asked: GenerationRequest, context: int) -> int:
    """Return how many tokens a request may take, if nothing is cached: each prompt once, and each answer.

    An answer without `max_tokens` counts as `UNSAID_ANSWER`, or as what is left of the context.
    """
    wanted = UNSAID_ANSWER if asked.max_tokens is None else asked.max_tokens
    answers = sum(max(0, min(wanted, context - len(prompt))) for prompt in asked.prompts)
    return sum(map(len, set(asked.prompts))) + answers


def _left(used: _Used, most: int) -> float:
    """Return how many tokens of a bucket of `most` may still be reserved; below 0 where it is overdrawn."""
    return most - used.tokens - used.reserved


def _retry_after(used: _Used, most: int, tokens: int) -> float:
    """Return when to ask again for so many tokens; live requests may give some back before, nobody knows when."""
    return max(RETRY_SECONDS, _seconds_until(used, most, tokens))


def _seconds_until(used: _Used, most: int, tokens: int) -> float:
    """Return the time until a bucket of `most` tokens a minute has so many in it, if nothing is taken out."""
    return max(0.0, (used.tokens + tokens - most) * 60 / most)
