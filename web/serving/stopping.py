"""Stopping of a server: on a signal, or when the ranks that compute with it are lost."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

import trio

from runtime.common.units import counted
from web.process.signals import SIGNALS, exit_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.engine import Engine
    from web.process.hooks import ServerHooks
    from web.serving.ranks import RankProcesses

logger = logging.getLogger("cede.web")

# How long all requests may take to be told that another rank is gone.
LOST_SECONDS = 1.0
# How long it may take to tell others that the server ends, beside what it takes to end.
LEAVE_SECONDS = 1.0


async def stop_on_signal(
    engine: Engine,
    hooks: ServerHooks,
    grace: float,
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Refuse new requests on the first signal, let the running ones finish, then set `stop`; exit on the second.

    Others are told meanwhile: whoever does not answer them keeps nobody from ending.
    """
    with trio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        first = await anext(signals)
        logger.info("%s: finishing %s", signal.Signals(first).name, counted(len(engine.requests()), "request"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_exit_on_signal, signals)
            async with trio.open_nursery() as ending:
                ending.start_soon(_leave, hooks)
                await engine.drain(grace)
            stop.set()  # the connections end within their linger, and `run_server` then cancels this task


async def stop_when_lost(ranks: RankProcesses, engine: Engine, hooks: ServerHooks, stop: trio.Event) -> None:
    """See all requests told when a rank is lost, then set `stop`; a step that does not end then ends the process.

    The next step tells them; whoever is in none is cancelled, as by a shutdown.
    """
    await ranks.wait_lost()
    engine.close_admission()
    async with trio.open_nursery() as ending:
        ending.start_soon(_leave, hooks)
        with trio.move_on_after(LOST_SECONDS) as patience:
            with trio.move_on_after(LOST_SECONDS / 2):
                await engine.wait_all_ended()
            await engine.drain(0)
            await engine.wait_all_ended()
        if patience.cancelled_caught:
            logger.error("the step under way does not end, and the process ends without it")
            exit_now(1)
    stop.set()


async def _leave(hooks: ServerHooks) -> None:
    """Tell others that the server ends, for a time."""
    with trio.move_on_after(LEAVE_SECONDS) as patience:
        await hooks.leave()
    if patience.cancelled_caught:
        logger.error(
            "the others could not be told within %g s that this server ends; it does all the same", LEAVE_SECONDS
        )


async def _exit_on_signal(signals: AsyncIterator[int]) -> None:
    """The second signal ends the process at once, whatever is open."""
    number = await anext(signals)
    exit_now(128 + number)
