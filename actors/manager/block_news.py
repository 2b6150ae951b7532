"""Notices of which KV blocks an engine holds, for those who choose where to send a request."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from runtime.kv.held import HeldBlocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.manager.slot_manager import SlotManager
    from runtime.kv.held import BlockListener


@contextmanager
def told_of_blocks(manager: SlotManager, listener: BlockListener) -> Iterator[HeldBlocks]:
    """Tell a listener what slots and tiers hold, from what they hold now on; one listener at a time.

    It is told of a slot's block in the moment of its commit, of an aborted prompt's as of any other, and that one is
    gone when neither slot nor tier has it.  What lies on disk from before is told of once it has been read.

    Args:
        manager: of the slots and the tiers.
        listener: called on the event loop's thread.
    """
    table, tiers = manager.table, manager.cache.tiers
    held, token = HeldBlocks(manager.cache.root, listener), trio.lowlevel.current_trio_token()

    def wake() -> None:  # on the disk's threads
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(tiers.settle_losses, idempotent=True)

    table.tell(held)
    tiers.tell(held, wake)
    try:
        yield held
    finally:
        table.tell(None)
        tiers.tell(None)
