"""Where a request's body is understood: at once, or in a worker thread.

Tokenising lets other threads run, and so the event loop (`runtime.text.tokenizer`).  The rest of the work (parsing, the
chat template) does not, but what one body can ask of it is bounded: `web.bodies.json_size`, `web.limits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import trio

from runtime.units import KIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from web.openai.conversion import ParsedRequest

Parser: TypeAlias = "Callable[[bytes, ServedModel, int], ParsedRequest]"

INLINE_BODY = 2 * KIB
"""Bytes of a body that is understood in the event loop: a millisecond or so of work."""

LONG_BODY = 64 * KIB
"""Bytes from which on a body may take long to understand."""

AT_A_TIME = 2
"""Bodies that worker threads understand at a time, beside a long one: the cores are the device's first of all."""


class BodyParser:
    """Turns bodies into jobs for one engine, so that nobody's tokens wait long for that.

    Long ones are understood one at a time, and whoever sends an ordinary one does not stand behind them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ordinary = trio.CapacityLimiter(AT_A_TIME)
        self._long = trio.CapacityLimiter(1)

    async def read(self, parse: Parser, raw: bytes) -> ParsedRequest:
        """What `parse` makes of the body `raw`.  Raises RequestError as it does."""
        model, most = self._engine.model, self._engine.most_generations
        if len(raw) < INLINE_BODY:
            return parse(raw, model, most)
        limiter = self._ordinary if len(raw) < LONG_BODY else self._long
        return await trio.to_thread.run_sync(parse, raw, model, most, limiter=limiter)
