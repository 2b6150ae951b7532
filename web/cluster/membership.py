"""A worker in discovery, or out of it.  For tasks of Trio's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import trio

from web.cluster.guest import from_asyncio

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from web.cluster.liveness import Entries

logger = logging.getLogger("cede.web")


class Endpoint(Protocol):
    """Dynamo's, as far as it is used here."""

    def register_endpoint_instance(self) -> Awaitable[Any]:
        """Be found by front doors."""

    def unregister_endpoint_instance(self) -> Awaitable[Any]:
        """Be found no more."""


class Membership:
    """Says for one worker whether it is to be found.  It is, as long as nobody has a reason why not.

    Args:
        endpoint: registered.

    Attributes:
        stands_still: whether the loop does, so that a thread has taken the worker out; set by `StallWatch`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.stands_still = False
        self._endpoint = endpoint
        self._reasons: set[str] = set()
        self._is_in = True
        self._changing = trio.Lock()

    @property
    def is_in(self) -> bool:
        """Return whether the worker can be found."""
        return self._is_in

    async def leave(self, reason: str) -> None:
        """Be found no more, for as long as this reason holds."""
        self._reasons.add(reason)
        await self._follow()

    async def come_back(self, reason: str) -> None:
        """A reason holds no longer."""
        self._reasons.discard(reason)
        await self._follow()

    async def renew(self, entries: Entries) -> list[Path]:
        """Write again what discovery has forgotten of the worker, if it is to be found.

        A thread does it.  A folder that does not answer holds that thread, and nobody who is cancelled.

        Raises:
            OSError: as `Entries.renew` does.
        """
        async with self._changing:
            if not self._is_in or self.stands_still:
                return []
            return await trio.to_thread.run_sync(entries.renew, abandon_on_cancel=True)

    async def _follow(self) -> None:
        """Enter or leave discovery as the reasons ask.  One at a time, in whichever order they change."""
        async with self._changing:
            wanted = not self._reasons
            if wanted == self._is_in:
                return
            if wanted:
                logger.info("the worker is in discovery again")
                await from_asyncio(self._endpoint.register_endpoint_instance())
            else:
                logger.info("the worker leaves discovery: %s", ", ".join(sorted(self._reasons)))
                await from_asyncio(unregister(self._endpoint))
            self._is_in = wanted


async def unregister(endpoint: Endpoint) -> None:
    """Let a worker be found no more.  What Dynamo says against it is logged.  asyncio's."""
    try:
        await endpoint.unregister_endpoint_instance()
    except Exception as error:  # Dynamo's: discovery has forgotten the worker already, or cannot be reached
        logger.warning("the worker could not be taken out of discovery: %s", error)
