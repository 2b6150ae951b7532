"""Parses request bodies, short ones in the event loop and others in a worker thread.

Tokenising lets other threads run, and so the event loop (`runtime.text.tokenizer`).  The rest of the work (parsing, the
chat template) does not, but what one body can ask of it is bounded: `web.bodies.json_size`, `web.process.limits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from runtime.common.units import KIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine import Engine
    from runtime.loading.served import ServedModel

T = TypeVar("T")

INLINE_BODY = 2 * KIB
"""Bytes from which on a body is parsed in a thread.  A shorter one takes a millisecond or so."""

LONG_BODY = 64 * KIB
"""Bytes from which on a body counts as long: it may take long to parse."""

MAX_ORDINARY = 2
"""Bodies that are not long and are parsed at a time.  There are no more because the cores are needed by the device."""


class BodyParser:
    """Parses the bodies for one engine, without keeping its tokens waiting.

    Long bodies are parsed one at a time, and beside them others, so that those do not wait for a long one.

    Args:
        engine: whose model and capacity bound the requests.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ordinary = trio.CapacityLimiter(MAX_ORDINARY)
        self._long = trio.CapacityLimiter(1)

    async def parse(
        self, function: Callable[[bytes, ServedModel, int], T], raw: bytes, *, size: int | None = None
    ) -> T:
        """Return `function(raw, model, max_generations)`.

        Args:
            function: synchronous and safe to call in a thread; raises RequestError for a bad body.
            raw: the body.
            size: bytes that the function has to read, where these are not those of the body.

        Raises:
            RequestError: as `function` does.
        """
        model, max_generations = self._engine.model, self._engine.most_generations
        size = len(raw) if size is None else size
        if size < INLINE_BODY:
            return function(raw, model, max_generations)
        limiter = self._ordinary if size < LONG_BODY else self._long
        return await trio.to_thread.run_sync(function, raw, model, max_generations, limiter=limiter)
