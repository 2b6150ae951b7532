"""Leaves discovery for an event loop that does not turn: from a thread of its own, for the loop cannot do it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Self

from web.cluster.guest import tell_loop
from web.cluster.membership import unregister

if TYPE_CHECKING:
    from types import TracebackType

    from web.cluster.membership import Endpoint, Membership

logger = logging.getLogger("cede.web")

LOOK_EVERY = 2.0  # seconds
PATIENCE = 5.0  # seconds in which a loop has to have turned once


class StallWatch:
    """Asks the loop for a sign again and again, while its scope lasts.

    What ran on the worker goes on elsewhere by itself, since its streams fall silent.

    Args:
        loop: asyncio's.
        endpoint: registered.
        membership: says whether the worker is to be found at all.
        patience: seconds in which the loop has to answer.
        look_every: seconds between two questions.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        membership: Membership,
        *,
        patience: float = PATIENCE,
        look_every: float = LOOK_EVERY,
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._membership = membership
        self._patience = patience
        self._look_every = look_every
        self._over = threading.Event()
        self._turned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End; what the thread has begun it finishes."""
        self._over.set()
        self._turned.set()

    def _run(self) -> None:
        while not self._over.wait(self._look_every):
            self._turned.clear()
            tell_loop(self._loop, self._turned.set)
            if self._turned.wait(self._patience) or not self._membership.is_in:
                continue
            logger.error("the event loop has stood still for %g s; the worker leaves discovery", self._patience)
            self._membership.stands_still = True
            asyncio.run(unregister(self._endpoint))
            self._turned.wait()
            if not self._over.is_set():
                asyncio.run_coroutine_threadsafe(self._come_back(), self._loop)

    async def _come_back(self) -> None:
        """Run by the loop, which turns again."""
        if self._membership.is_in:
            logger.info("the event loop turns again; the worker is in discovery")
            await self._endpoint.register_endpoint_instance()
        self._membership.stands_still = False
