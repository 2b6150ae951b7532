"""A worker that discovery has forgotten, although it lives: it stops, so that whoever started it starts it again.

So it is after a worker was frozen, and after discovery was away: what a worker had written there has run out, and
Dynamo, which goes on saying that it lives, does not write it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

logger = logging.getLogger("cede.web")

LOOK_EVERY = 5.0  # seconds; Dynamo tells nobody
LOOKS = 2  # in a row, or a worker that has just come back would be taken for one that is gone


class Wanted(Protocol):
    """Part of a `Membership` that says whether its worker ought to be found."""

    @property
    def is_in(self) -> bool:
        """Return whether it ought to."""


class Client(Protocol):
    """Dynamo's, as far as it is used here: it follows discovery, and keeps what it knew while that is away."""

    def instance_ids(self) -> Collection[int]:
        """The workers that are to be found."""


async def watch_presence(worker_id: int, membership: Wanted, client: Client, stop: Callable[[], None]) -> None:
    """Call `stop` once the worker is not to be found although it ought to be; then return.

    Args:
        worker_id: as discovery has it.
        membership: whether it ought to be found.
        client: whether it is.
        stop: lets the worker end in good order.
    """
    missed = 0
    while missed < LOOKS:
        await trio.sleep(LOOK_EVERY)
        missed = missed + 1 if membership.is_in and worker_id not in client.instance_ids() else 0
    logger.error("discovery has forgotten this worker; it stops, and wants to be started again")
    stop()
