"""SIGHUP: the file of keys is read again."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

import trio

from web.process.access.key_file import ApiKeyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from web.process.access.api_keys import ApiKey, KeyRing

logger = logging.getLogger("cede.web")


async def reload_on_hangup(
    ring: KeyRing,
    read: Callable[[], list[ApiKey]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read the keys again at each SIGHUP; those that were in force stay so if that fails.

    Requests that are being served go on, also those of a key that is gone.

    Args:
        ring: gets the keys.
        read: reads them; raises ApiKeyError or OSError.
        task_status: is told once the signal is caught.
    """
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            try:
                keys = await trio.to_thread.run_sync(read, abandon_on_cancel=True)  # a disk may take its time
            except (ApiKeyError, OSError) as error:
                logger.error("SIGHUP: the keys stay as they were: %s", error)
            else:
                ring.replace(keys)
                logger.info("SIGHUP: %d API keys are served", len(keys))
