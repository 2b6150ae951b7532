"""The requests of one connection: each lives only as long as it can still be answered.

Hypercorn starts a request as a task and tells it of the end by a message, `http.disconnect`, in a queue of ten: a
message that can be late, can wait for room in the queue, and is never sent where Hypercorn does not know of the end.
Here each request has a cancel scope, and whatever ends it cancels that, at once: the end of its stream, of its
connection, or of the protocol.  There is no other way to end one, so there is none that could be forgotten.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
from hypercorn.trio.task_group import TaskGroup

from web.process.tracebacks import clear_tracebacks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn import Config
    from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

_log = logging.getLogger("cede.web")


@dataclass(eq=False)
class RequestScope:
    """The way back to one request's client, as the request sees it: `scope["state"]["request_scope"]`."""

    stalled: bool = False
    """Its reader took too little of what waited for it, and was cut."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """In which the request runs."""

    def end(self) -> None:
        """Nobody can be answered any more: the request ends, at its next checkpoint."""
        self.scope.cancel(reason="the client can no longer be answered")


class ConnectionTaskGroup(TaskGroup):
    """The tasks of a connection, of which those that are requests can be ended without the others."""

    def __init__(self) -> None:
        super().__init__()
        self._live: set[RequestScope] = set()

    def __len__(self) -> int:
        """How many live, those included that were told to end and have not yet."""
        return len(self._live)

    def end(self, *, stalled: bool = False) -> None:
        """End them all, since none can be answered any more; `stalled` says that their reader is the reason."""
        for request in self._live:
            request.stalled |= stalled
            request.end()

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: Callable[[ASGISendEvent | None], Awaitable[None]]
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start a request; what is returned hands it a message, or ends it."""
        request = RequestScope()
        scope["state"]["request_scope"] = request  # in the copy that is its own
        self._live.add(request)
        to_app: trio.MemorySendChannel[ASGIReceiveEvent]
        to_app, messages = trio.open_memory_channel(config.max_app_queue_size)
        self.spawn(self._run, app, scope, request, messages, send)

        async def put(message: ASGIReceiveEvent) -> None:
            if message["type"] == "http.disconnect":
                request.end()
            else:
                with suppress(trio.BrokenResourceError):  # it has ended, and listens no more
                    await to_app.send(message)

        return put

    async def _run(
        self,
        app: AppWrapper,
        scope: Scope,
        request: RequestScope,
        messages: trio.MemoryReceiveChannel[ASGIReceiveEvent],
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> None:
        """One request; what it sends has a cancel point before it, since there is none while bytes are made."""

        async def send_whole(message: ASGISendEvent) -> None:
            await trio.lowlevel.checkpoint_if_cancelled()
            await send(message)

        try:
            with messages, request.scope:
                try:
                    await app(scope, messages.receive, send_whole, trio.to_thread.run_sync, trio.from_thread.run)
                except BaseException as error:
                    _log_fault(error)
                    clear_tracebacks(error)
                    raise
        except* Exception:
            pass  # it is in the log; Cancelled goes on
        finally:
            self._live.discard(request)
            await send(None)


def _log_fault(error: BaseException) -> None:
    """Log what is no cancel."""
    fault = error.split(trio.Cancelled)[1] if isinstance(error, BaseExceptionGroup) else error
    if fault is not None and not isinstance(fault, trio.Cancelled):
        _log.error("a request failed", exc_info=fault)
