"""A live request: a nursery of actors under one cancel scope, and the buffer between them and the client.

Two scopes end it.  A hang-up cancels the scope that the client's handler runs in, and with it everything here.  An
operator, a deadline or a shutdown cancels only `Request`'s own scope: the actors stop, and the client, who is still
listening, is told so.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import trio

from actors.core.generation import (
    Event,
    Failed,
    Finished,
    FinishReason,
    GenerationRequest,
    RequestState,
    RequestStatus,
    Timings,
)
from actors.core.receipts import CancelReason
from actors.core.request_log import RequestLog
from actors.generating.buffer import EventBuffer
from actors.generating.decode import decode
from actors.generating.prefill import prefill
from runtime.errors import CedeError, DeadlineExceeded, ShuttingDown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from actors.core.lease import Lease
    from actors.generating.drafting import Drafting
    from actors.generating.output import Output
    from actors.generating.unread import Account
    from actors.manager.slot_manager import SlotManager

logger = logging.getLogger("cede.engine")


class Request:
    """One client's request while it lives.  Iterate it for its events; made by `Engine.open_request`.

    Args:
        asked: what the client wants.
        leases: one per generation, enqueued.
        outputs: makes the `Output` of generation i, which emits to the function given.
        drafting: makes a generation's drafts; None where it gets none.
        manager: grants the leases.
        account: for what the client has not read yet; fresh.
        deadline: on Trio's clock.
        queue_timeout: seconds.
        disconnect_reason: asked when a cancel came from outside this request.
    """

    def __init__(
        self,
        asked: GenerationRequest,
        leases: Sequence[Lease],
        outputs: Callable[[int, Callable[[Event], None]], Output],
        drafting: Callable[[], Drafting | None],
        manager: SlotManager,
        account: Account,
        *,
        deadline: float,
        queue_timeout: float | None,
        disconnect_reason: Callable[[], CancelReason],
    ) -> None:
        self.asked = asked
        self.created = time.time()
        self._leases = leases
        self._manager = manager
        self._queue_timeout = queue_timeout
        self._disconnect_reason = disconnect_reason
        self._scope = trio.CancelScope(deadline=deadline)
        self._reason: CancelReason | None = None
        self.account = account
        self._buffer = EventBuffer(len(leases), account)
        account.on_cut = self._cut
        self._outputs = [outputs(i, self._buffer.put) for i in range(len(leases))]
        self._drafting = drafting
        self._log = RequestLog(asked)

    @property
    def id(self) -> str:
        return self.asked.id

    # --- for the client's side ----------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        """Events as they come; ends when each generation has had its `Finished` or `Failed`."""
        return aiter(self._buffer)

    def event_nowait(self) -> Event | None:
        """The next event if it is there."""
        return self._buffer.take_nowait()

    def cancel(self, reason: CancelReason) -> None:
        """Stop the actors; the events end with `Finished(CANCELLED)`.  The first reason is the one that counts."""
        if self._reason is None:
            self._reason = reason
        self._scope.cancel(reason=reason.value)

    def _cut(self, error: CedeError) -> None:
        """Give up a reader who has left too much: it finds the error next, and the actors stop."""
        self._buffer.fail(error)
        self.cancel(CancelReason.STALLED_READER)

    def status(self) -> RequestStatus:
        """This request as a frozen snapshot."""
        return RequestStatus(
            id=self.id,
            created=self.created,
            states=tuple(_state(lease) for lease in self._leases),
            prompt_tokens=sum(len(lease.prompt) for lease in self._leases),
            completion_tokens=sum(len(output) for output in self._outputs),
            slots=tuple(None if lease.slot is None else lease.slot.id for lease in self._leases),
        )

    def log_end(self) -> None:
        """Say in the log how it ended, once it has."""
        self._log.write(self._reason)

    # --- the actors ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run one actor per generation to its end."""
        with self._buffer, self._scope:
            async with trio.open_nursery() as actors:
                for lease, output in zip(self._leases, self._outputs, strict=True):
                    actors.start_soon(self._generate, lease, output)

    async def _generate(self, lease: Lease, output: Output) -> None:
        """One generation from the queue to its last event.  A fault costs this generation and nothing else."""
        stopwatch = Stopwatch()
        try:
            async with self._manager.hold(lease, queue_timeout=self._queue_timeout, cancel_reason=self._cancel_reason):
                stopwatch.granted()
                first = await prefill(lease, output.next_sample())
                stopwatch.first_token()
                reason = await decode(lease, first, output, self._drafting())
                stopwatch.done()
            self._finish(lease, output, reason, stopwatch)  # the slot is free: a follow-up finds its tokens there
        except trio.Cancelled:
            self._say_cancelled(lease, output, stopwatch)
            raise
        except CedeError as error:
            self._say(Failed(lease.index, error))
        except Exception:
            self._say_internal_error(lease)

    def _say_internal_error(self, lease: Lease) -> None:
        logger.exception("request %s/%d failed", self.id, lease.index)
        self._say(Failed(lease.index, CedeError("internal error; the log says more")))

    def _say_cancelled(self, lease: Lease, output: Output, stopwatch: Stopwatch) -> None:
        """Tell whoever still listens.  With nothing generated, what ended the request is its error."""
        reason = self._cancel_reason()
        if len(output) == 0 and reason is CancelReason.DEADLINE:
            error = DeadlineExceeded("the request's deadline passed before its first token")
            self._say(Failed(lease.index, error))
        elif len(output) == 0 and reason is CancelReason.SHUTDOWN:
            self._say(Failed(lease.index, ShuttingDown("the server is shutting down")))
        else:
            try:
                self._finish(lease, output, FinishReason.CANCELLED, stopwatch)
            except Exception:  # in place of the cancel it would reach the client's handler, past its other generations
                self._say_internal_error(lease)

    def _finish(self, lease: Lease, output: Output, reason: FinishReason, stopwatch: Stopwatch) -> None:
        self._say(
            Finished(
                index=lease.index,
                reason=reason,
                text=output.rest(),
                prompt_tokens=len(lease.prompt),
                cached_tokens=lease.cached,
                completion_tokens=len(output),
                timings=stopwatch.timings(lease, len(output)),
            )
        )

    def _say(self, event: Event) -> None:
        self._log.add(event)
        self._buffer.put(event)

    def _cancel_reason(self) -> CancelReason:
        """Why the cancel that is now unwinding came."""
        if self._reason is None:
            expired = self._scope.cancel_called  # nobody called cancel(), so it was the deadline
            self._reason = CancelReason.DEADLINE if expired else self._disconnect_reason()
        return self._reason


class Stopwatch:
    """When a generation was granted its slot, drew its first token and its last, on Trio's clock."""

    def __init__(self) -> None:
        self._granted: float | None = None
        self._first_token: float | None = None
        self._done: float | None = None

    def granted(self) -> None:
        self._granted = trio.current_time()

    def first_token(self) -> None:
        self._first_token = trio.current_time()

    def done(self) -> None:
        self._done = trio.current_time()

    def timings(self, lease: Lease, predicted_n: int) -> Timings:
        """The figures up to now."""
        now = trio.current_time() if self._done is None else self._done
        granted = now if self._granted is None else self._granted
        first_token = now if self._first_token is None else self._first_token
        return Timings(
            prompt_n=min(lease.computed, len(lease.prompt) - lease.cached),  # which counts the output's rows, too
            cache_n=lease.cached,
            prompt_ms=(first_token - granted) * 1e3,
            predicted_n=predicted_n,
            predicted_ms=(now - first_token) * 1e3,
            draft_n=lease.drafted,
            draft_n_accepted=lease.accepted,
        )


def _state(lease: Lease) -> RequestState:
    if lease.released.is_set():
        return RequestState.DONE
    return RequestState(lease.phase)
