"""The tasks of one connection.  A request among them lives only as long as it can still be answered.

Hypercorn starts a request as a task and tells it of the end by a message, `http.disconnect`, in a queue of ten.  That
message can be late, can wait for room in the queue, and is never sent where Hypercorn does not know of the end.  Here
each request has a cancel scope, and whatever ends the request cancels that scope at once: the end of its stream, of
its connection, or of the protocol.  There is no other way to end a request, so there is none that could be forgotten.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
from hypercorn.trio.task_group import TaskGroup

from web.http.transport.loop_share import YOUNG
from web.process.tracebacks import clear_tracebacks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn import Config
    from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

    from web.http.transport.idle_timer import IdleTimer
    from web.http.transport.loop_share import LoopShare

SHORT_ANSWER = 3
"""Messages of an answer that is sent as a whole: its head, its body, and the end.  Who sends more streams."""

_log = logging.getLogger("cede.web")


@dataclass(eq=False)
class RequestScope:
    """The scope that one request runs in.  The application finds it as `scope["state"]["request_scope"]`."""

    stalled: bool = False
    """Whether the request was ended because its reader took too little of what waited for it."""

    cancel_scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def end(self, *, stalled: bool = False) -> None:
        """Cancel the request, because nobody can be answered any more; it ends at its next checkpoint."""
        self.stalled |= stalled
        self.cancel_scope.cancel(reason="the client can no longer be answered")


class ConnectionTaskGroup(TaskGroup):
    """Hypercorn's task group, whose requests can be ended while the other tasks go on.

    A connection is idle while no request runs on it, whatever its protocol is and says.

    Args:
        idle_timer: of the connection.
        share: which the requests' time counts for, until each is answered, or streams its answer.
    """

    def __init__(self, idle_timer: IdleTimer, share: LoopShare) -> None:
        super().__init__()
        self._idle_timer = idle_timer
        self._share = share
        self._requests: set[RequestScope] = set()

    @property
    def request_count(self) -> int:
        """Number of requests that run, with those that were told to end and have not yet."""
        return len(self._requests)

    def end_requests(self, *, stalled: bool = False) -> None:
        """End all requests, since none can be answered any more; `stalled` says that their reader is the reason."""
        for request in self._requests:
            request.end(stalled=stalled)

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: Callable[[ASGISendEvent | None], Awaitable[None]]
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start a request.  Return a function that passes a message on to the request, or ends it."""
        request = RequestScope()
        scope["state"]["request_scope"] = request  # the request's own copy of the state
        self._requests.add(request)
        self._share.begin(request)
        self._idle_timer.stop()
        to_app: trio.MemorySendChannel[ASGIReceiveEvent]
        to_app, messages = trio.open_memory_channel(config.max_app_queue_size)
        self.spawn(self._run, app, scope, request, messages, send)

        async def put(message: ASGIReceiveEvent) -> None:
            if message["type"] == "http.disconnect":
                request.end()
                return
            with suppress(trio.BrokenResourceError):  # the request has ended, and receives no more
                try:
                    to_app.send_nowait(message)
                except trio.WouldBlock:
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
        """Run one request, and tell the protocol when it has ended."""
        sent = 0

        async def send_message(message: ASGISendEvent) -> None:
            nonlocal sent
            sent += 1
            await trio.lowlevel.checkpoint_if_cancelled()  # there is none while the protocol makes bytes
            await send(message)

        try:
            with messages, request.cancel_scope:
                try:
                    served = app(scope, messages.receive, send_message, trio.to_thread.run_sync, trio.from_thread.run)
                    await self._share.charged(served, lambda: sent > SHORT_ANSWER, YOUNG)
                except BaseException as error:
                    _log_failure(error)
                    clear_tracebacks(error)
                    raise
        except* Exception:
            pass  # it is in the log; Cancelled goes on
        finally:
            self._requests.discard(request)
            self._share.end(request)
            try:
                await send(None)
            finally:
                if not self._requests:
                    self._idle_timer.begin()


def _log_failure(error: BaseException) -> None:
    """Log what is not a cancellation."""
    failure = error.split(trio.Cancelled)[1] if isinstance(error, BaseExceptionGroup) else error
    if failure is not None and not isinstance(failure, trio.Cancelled):
        _log.error("a request failed", exc_info=failure)
