"""Meaning of a hang-up for a request that may outlive its client; decided here and nowhere else.

Its client's connection is a reader, and so is whoever comes back.  When the last of them has gone, the request has as
much patience as it asked for, within the server's bounds.  Somebody who comes back in that time ends the matter.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Token
from actors.core.receipts import CancelReason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.control import Control
    from actors.core.generation import Event
    from actors.request import Request
    from runtime.errors import CedeError
    from web.storage.detached.run import Run

logger = logging.getLogger("cede.web")


async def watch_disconnects(run: Run, request: Request, most_seconds: float) -> None:
    """See to it that a request without readers goes on for as long as it may, and not longer.

    Args:
        run: of the request; cancelled when that has ended.
        request: open.
        most_seconds: that any request may go on without a reader.
    """
    patience = patience_of(run.control, most_seconds)
    while True:
        await run.deserted()
        figures = {"request_id": run.id, "on_disconnect": run.control.on_disconnect, "patience_seconds": patience}
        logger.info("%s: nobody reads it: %s, after %g s", run.id, run.control.on_disconnect, patience, extra=figures)
        with trio.move_on_after(patience) as alone:
            await run.attended()
        if alone.cancelled_caught:
            break
    match run.control.on_disconnect:
        case "cancel":
            request.cancel(CancelReason.DISCONNECT)
        case "detach":
            request.cancel(CancelReason.ABANDONED)
        case "finish_prefill":
            request.finish_prefill()
            await trio.sleep(most_seconds - patience)
            request.cancel(CancelReason.ABANDONED)


def patience_of(control: Control, most_seconds: float) -> float:
    """Return for how many seconds a request goes on as if nothing had been, when nobody reads it."""
    unsaid = most_seconds if control.on_disconnect == "detach" else 0.0
    return min(unsaid if control.grace_s is None else control.grace_s, most_seconds)


class Followed:
    """The events of a request that may outlive its client, for whoever makes its answer of them.

    It counts the tokens that nobody reads; one that makes too many is cancelled.

    Args:
        run: of the request.
        request: open, and read by nobody else.
        most_tokens: that it may generate without a reader.
    """

    def __init__(self, run: Run, request: Request, most_tokens: int) -> None:
        self._run = run
        self._request = request
        self._events = aiter(request)
        self._most_tokens = most_tokens

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return the events."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event.  A cancellation loses nothing."""
        event = await anext(self._events)
        if isinstance(event, Token) and not self._run.readers and self._run.control.outlives_client:
            self._run.unread_tokens += 1
            if self._run.unread_tokens > self._most_tokens:
                self._request.cancel(CancelReason.ABANDONED)
        return event

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the request."""
        self._request.cancel(reason)

    def give_up(self, cut: CedeError) -> None:
        """Cancel the request, of whose answer more waits to be read than may."""
        self.cancel(CancelReason.STALLED_READER)
