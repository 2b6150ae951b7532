"""One request, asked for several times: a front door that has given a worker up may come back to it.

It does so under the same id, where the worker had only been out of reach, and maybe before the worker hears that the
earlier attempt is not wanted any more.  So the later one waits for that one's end.  It does not bring it about: nothing
says which of two attempts is the older one, and what was held up on its way may come last.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Attempts:
    """The attempts of requests that are being served; of each request, one at a time."""

    def __init__(self) -> None:
        self._turns: dict[str, trio.Lock] = {}

    @asynccontextmanager
    async def alone(self, request_id: str) -> AsyncIterator[None]:
        """Be the only attempt of this request while the scope lasts; waits for those that came before."""
        turn = self._turns.setdefault(request_id, trio.Lock())
        try:
            async with turn:
                yield
        finally:
            if not turn.locked():
                self._turns.pop(request_id, None)
