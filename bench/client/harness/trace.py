"""The trace of one request: what came, and when."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

TOGETHER_SECONDS = 0.001
"""Seconds within which tokens count as one arrival: the tokens of one step are several events, but one wait."""


class RequestFailed(Exception):
    """The server answered with an error, or broke the protocol."""


class Trace:
    """The trace of one request, filled while the response comes.  Times are `trio.current_time()`, in seconds.

    Args:
        on_arrival: called with the trace after each arrival.

    Attributes:
        started: when the request was sent.
        request_id: the server's `x-request-id`; None before the response begins, or if there is none.
        arrivals: when tokens came, and how many.  A server that does not say how many is taken to send one token in
            each event.
        text: of the first choice.
        usage, timings: as the server reported them at the end; empty before, and if it does not report them.
        ended: when the last byte came; None for a response that was hung up on or failed.
        closed: when the connection was closed, as `trio.current_time()` and as seconds since the epoch.
    """

    def __init__(self, on_arrival: Callable[[Trace], None] = lambda _: None) -> None:
        self._on_arrival = on_arrival
        self.started = 0.0
        self.request_id: str | None = None
        self.arrivals: list[tuple[float, int]] = []
        self.text = ""
        self.usage: Json = {}
        self.timings: Json = {}
        self.ended: float | None = None
        self.closed = (0.0, 0.0)
        self._changed = trio.Event()
        self._is_closed = False
        self._first_event: float | None = None  # when the first event about a choice came

    # --- what came ------------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Tokens that came, as the server counts them, or else as they were seen to come."""
        return int(self.usage.get("completion_tokens") or sum(count for _, count in self.arrivals))

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt as the server counts them; None if it does not."""
        return self.usage.get("prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that the server had already; None if it does not say."""
        details = self.usage.get("prompt_tokens_details") or {}
        found = details.get("cached_tokens", self.timings.get("cache_n"))
        return None if found is None else int(found)

    @property
    def ttft(self) -> float:
        """Seconds to the first token.  Raises RequestFailed if none came."""
        if not self.arrivals:
            raise RequestFailed("the response ended without a token")
        return self.arrivals[0][0] - self.started

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first arrival.  Raises RequestFailed if there was no second one."""
        if len(self.arrivals) < 2:
            raise RequestFailed("the tokens came at once, or not at all: there is no rate")
        first, last = self.arrivals[0], self.arrivals[-1]
        return (self.tokens - first[1]) / (last[0] - first[0])

    def gaps(self, since: float = float("-inf"), until: float = float("inf")) -> list[float]:
        """Return the seconds between arrivals, for the gaps that overlap the time from `since` to `until`."""
        times = [at for at, _ in self.arrivals]
        return [after - before for before, after in pairwise(times) if before < until and after > since]

    async def wait_tokens(self, count: int) -> bool:
        """Wait until `count` tokens have come or the connection is closed, and return whether they have come."""
        while not self._is_closed and sum(n for _, n in self.arrivals) < count:
            await self._changed.wait()
        return sum(n for _, n in self.arrivals) >= count

    # --- for the client ---------------------------------------------------------------------------------------------

    def add(self, tokens: int, text: str) -> None:
        """Record that `tokens` tokens with this text come now."""
        now = trio.current_time()
        self._first_event = self._first_event or now
        self.text += text
        if not tokens:
            return
        if self.arrivals and now - self.arrivals[-1][0] < TOGETHER_SECONDS:
            at, count = self.arrivals[-1]
            self.arrivals[-1] = at, count + tokens
        else:
            self.arrivals.append((now, tokens))
        self._notify()
        self._on_arrival(self)

    def end(self) -> None:
        """Record that the response is complete.  Tokens that had no text came with the first event."""
        self.ended = trio.current_time()
        if not self.arrivals and self.tokens:
            self.arrivals.append((self._first_event or self.ended, self.tokens))

    def close(self, wall_clock: Callable[[], float]) -> None:
        """Record that the connection is closed; `wall_clock` returns seconds since the epoch."""
        self.closed = trio.current_time(), wall_clock()
        self._is_closed = True
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
