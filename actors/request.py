"""A live request: a nursery of actors under one cancel scope, and the buffer between them and the client.

Two scopes end it.  A hang-up cancels the scope that the client's handler runs in, and with it everything here.  An
operator, a deadline or a shutdown cancels only `Request`'s own scope: the actors stop, and the client, who is still
listening, is told so.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from actors.core.account import Account
from actors.core.generation import Event, Failed, Finished, FinishReason, GenerationRequest, LiveRequest, Timings
from actors.core.receipts import CancelReason
from actors.generating.buffer import EventBuffer
from actors.generating.decode import decode
from actors.generating.prefill import prefill
from actors.generating.prompt_reading import PromptReading
from actors.generating.request_log import Ending, Seconds
from runtime.errors import CedeError, DeadlineExceeded, GrammarFailed, ShuttingDown

if TYPE_CHECKING:
    from array import array
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from actors.core.hold import Ticket
    from actors.generating.drafting import Drafting
    from actors.generating.output import Output
    from actors.generating.request_log import RequestLog
    from actors.generating.unread import Backlog
    from actors.manager.handle import Handle

logger = logging.getLogger("cede.engine")


class Prefills:
    """Progress of a request's generations that may be asked to read their prompts and do no more.

    So the prompts are read after the client has gone, and a retry finds them read.

    Attributes:
        wanted: whether nothing else is wanted of them any more.
        only_read: indices of those that went on for that alone, and have done it.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.only_read: set[int] = set()
        self._scopes: dict[int, trio.CancelScope] = {}  # of those that run, by index
        self._finished: set[int] = set()

    @contextmanager
    def scope_of(self, index: int) -> Iterator[None]:
        """Surround a generation from its beginning to its end."""
        with trio.CancelScope() as self._scopes[index]:
            yield

    async def finished(self, index: int) -> None:
        """Note that a generation has read its prompt, which is its end if nothing else is wanted."""
        self._finished.add(index)
        if self.wanted:
            self.only_read.add(index)
            self._scopes[index].cancel()
            await trio.lowlevel.checkpoint()

    def want(self) -> None:
        """Want nothing else of them from now on."""
        self.wanted = True
        for index in self._finished:
            self._scopes[index].cancel()


class Request:
    """One client's request while it lives.  Iterate it for its events; made by `Engine.open_request`.

    Args:
        asked: what the client wants.
        tickets: one per generation, to be enqueued before `run`.
        outputs: makes the `Output` of generation i, which emits to the function given.
        drafting: makes a generation's drafts; None where it gets none.
        manager: grants them slots.
        backlog: for what the client has not read yet; fresh.
        deadline: on Trio's clock.
        queue_timeout: seconds.
        disconnect_reason: asked when a cancel came from outside this request.
        log: says how it ended.
        finish: is awaited when all generations have all their tokens, in the hold of the last one; a cancel point where
            another may finish instead.
    """

    def __init__(
        self,
        asked: GenerationRequest,
        tickets: Sequence[Ticket],
        outputs: Callable[[int, Callable[[Event], None]], Output],
        drafting: Callable[[], Drafting | None],
        manager: Handle,
        backlog: Backlog,
        *,
        deadline: float,
        queue_timeout: float | None,
        disconnect_reason: Callable[[], CancelReason],
        log: RequestLog,
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        self.asked = asked
        self.created = time.time()
        self._deadline = None if deadline == math.inf else self.created + deadline - trio.current_time()
        self._tickets = tickets
        self._manager = manager
        self._queue_timeout = queue_timeout
        self._disconnect_reason = disconnect_reason
        self._scope = trio.CancelScope(deadline=deadline)
        self._reason: CancelReason | None = None
        self.backlog = backlog
        self.ended = trio.Event()  # set by who admitted it: then its receipts are written
        self._buffer = EventBuffer(len(tickets), backlog)
        backlog.on_cut = self._cut
        self._outputs = [outputs(i, self._buffer.put) for i in range(len(tickets))]
        self._drafting = drafting
        self._log = log
        self._finish_well = finish
        self._unfinished = len(tickets)
        self._prefills = Prefills() if asked.control.on_disconnect == "finish_prefill" else None

    @property
    def id(self) -> str:
        """Id of the request, and of the response."""
        return self.asked.id

    @property
    def is_warm(self) -> bool:
        """Return whether it reads its prompt ahead of time, while nobody else has work."""
        return self.asked.control.warm

    @property
    def has_work(self) -> bool:
        """Return whether one of its generations has not ended, whoever still reads the answer."""
        return not all(ticket.ended.is_set for ticket in self._tickets)

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

    def finish_prefill(self) -> None:
        """Let each generation read its prompt to the end, and cancel it then; one that has read it, at once.

        From now on it is less important than all others.  Only for a request whose `control.on_disconnect` says so.
        """
        assert self._prefills is not None
        self._prefills.want()
        self._manager.demote(self._tickets)

    def _cut(self, error: CedeError) -> None:
        """Give up a reader who has left too much: it finds the error next, and the actors stop."""
        self._buffer.fail(error)
        self.cancel(CancelReason.STALLED_READER)

    def status(self) -> LiveRequest:
        """Return this request as a frozen snapshot."""
        preemptions = [self._manager.preemptions_of(ticket) for ticket in self._tickets]
        return LiveRequest(
            id=self.id,
            created=self.created,
            states=tuple(self._manager.state_of(ticket) for ticket in self._tickets),
            prompt_tokens=sum(len(ticket.prompt) for ticket in self._tickets),
            completion_tokens=sum(len(output) for output in self._outputs),
            slots=tuple(self._manager.slot_of(ticket) for ticket in self._tickets),
            owner=self.asked.owner,
            deadline=self._deadline,
            priority=self.asked.priority,
            group=self.asked.control.group,
            first_wins=self.asked.control.first_wins,
            supersede=self.asked.control.supersede,
            after=self.asked.control.after,
            warm=self.asked.control.warm,
            parks=sum(count for count, _ in preemptions),
            parked_seconds=sum(seconds for _, seconds in preemptions),
        )

    def log_end(self) -> None:
        """Say in the log how it ended, once it has."""
        self._log.write()

    # --- the actors ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run one actor per generation to its end."""
        with self._buffer, self._scope:
            async with trio.open_nursery() as actors:
                for ticket, output in zip(self._tickets, self._outputs, strict=True):
                    actors.start_soon(self._run_generation, ticket, output)

    async def _run_generation(self, ticket: Ticket, output: Output) -> None:
        if self._prefills is None:
            await self._generate(ticket, output)
        else:
            with self._prefills.scope_of(ticket.index):
                await self._generate(ticket, output)

    async def _generate(self, ticket: Ticket, output: Output) -> None:
        """One generation from the queue to its last event.  A fault costs this generation and nothing else."""
        stopwatch = Stopwatch()
        reading = PromptReading(ticket.index, ticket.prompt, self.asked.outputs, self._buffer.put)
        try:
            async with self._manager.hold(
                ticket, queue_timeout=self._queue_timeout, cancel_reason=lambda: self._cancel_reason(ticket.index)
            ) as hold:
                stopwatch.granted()
                first = await prefill(hold, self._manager.restoration(hold), output.first_sample(), reading)
                stopwatch.first_token()
                if self._prefills is not None:
                    await self._prefills.finished(ticket.index)
                reason = await decode(hold, first, output, self._drafting(), self._manager.restoration)
                self._unfinished -= 1
                if not self._unfinished:
                    await self._finish_well()
                stopwatch.done()
            # The slot is free: a follow-up finds its tokens there.
            self._finish(ticket, output, reason, stopwatch, reading.end())
        except trio.Cancelled:
            self._say_cancelled(ticket, output, stopwatch)
            raise
        except CedeError as error:
            if isinstance(error, GrammarFailed):
                logger.error("request %s/%d: %s", self.id, ticket.index, error)
            self._fail(ticket, output, error, stopwatch)
        except Exception:
            self._say_internal_error(ticket, output, stopwatch)

    def _fail(
        self,
        ticket: Ticket,
        output: Output,
        error: CedeError,
        stopwatch: Stopwatch,
        cancel: CancelReason | None = None,
    ) -> None:
        self._say(ticket, output, Failed(ticket.index, error), stopwatch, cancel)

    def _say_internal_error(self, ticket: Ticket, output: Output, stopwatch: Stopwatch) -> None:
        logger.exception("request %s/%d failed", self.id, ticket.index)
        self._fail(ticket, output, CedeError("internal error; the log says more"), stopwatch)

    def _say_cancelled(self, ticket: Ticket, output: Output, stopwatch: Stopwatch) -> None:
        """Tell whoever still listens.  With nothing generated, what ended the request is its error."""
        reason = self._cancel_reason(ticket.index)
        if len(output) == 0 and reason is CancelReason.DEADLINE:
            error = DeadlineExceeded("the request's deadline passed before its first token")
            self._fail(ticket, output, error, stopwatch, reason)
        elif len(output) == 0 and reason is CancelReason.SHUTDOWN:
            self._fail(ticket, output, ShuttingDown("the server is shutting down"), stopwatch, reason)
        else:
            try:
                self._finish(ticket, output, FinishReason.CANCELLED, stopwatch)
            except Exception:  # in place of the cancel it would reach the client's handler, past its other generations
                self._say_internal_error(ticket, output, stopwatch)

    def _finish(
        self,
        ticket: Ticket,
        output: Output,
        reason: FinishReason,
        stopwatch: Stopwatch,
        vector: array[float] | None = None,
    ) -> None:
        account = ticket.ended.value
        cancelled = self._cancel_reason(ticket.index) if reason is FinishReason.CANCELLED else None
        last = Finished(
            index=ticket.index,
            reason=reason,
            text=output.rest(),
            prompt_tokens=len(ticket.prompt),
            cached_tokens=account.cached,
            completion_tokens=len(output),
            timings=stopwatch.timings(ticket, len(output)),
            stop_string=output.stop_found,
            cancelled=cancelled,
            vector=vector,
            warmed_tokens=account.cached + account.committed if self.asked.control.warm else None,
        )
        self._say(ticket, output, last, stopwatch, cancelled)

    def _say(
        self,
        ticket: Ticket,
        output: Output,
        last: Finished | Failed,
        stopwatch: Stopwatch,
        cancel: CancelReason | None,
    ) -> None:
        """Say the last that there is to say of a generation."""
        account = ticket.ended.value if ticket.ended.is_set else Account()
        self._log.add(Ending(last, len(output), account, stopwatch.seconds(), cancel), output.sequence)
        ticket.tell_ended(last)
        self._buffer.put(last)

    def _cancel_reason(self, index: int) -> CancelReason:
        """Return why the cancel that is now unwinding came."""
        if self._reason is None:
            if self._scope.cancel_called:  # nobody called cancel(), so it was the deadline
                self._reason = CancelReason.DEADLINE
            elif self._prefills is not None and self._prefills.wanted:  # of this generation, not of the others
                only_read = index in self._prefills.only_read
                return CancelReason.PREFILL_FINISHED if only_read else CancelReason.DISCONNECT
            else:
                self._reason = self._disconnect_reason()
        return self._reason


class Stopwatch:
    """Times at which a generation came, was granted its slot, drew its first token and its last, on Trio's clock."""

    def __init__(self) -> None:
        self._came = trio.current_time()
        self._granted: float | None = None
        self._first_token: float | None = None
        self._done: float | None = None

    def granted(self) -> None:
        """Note the grant of the slot."""
        self._granted = trio.current_time()

    def first_token(self) -> None:
        """Note the first token."""
        self._first_token = trio.current_time()

    def done(self) -> None:
        """Note the last token."""
        self._done = trio.current_time()

    def seconds(self) -> Seconds:
        """Return how long it was in each part of its life, if it ends now or is done."""
        now = trio.current_time() if self._done is None else self._done
        granted = now if self._granted is None else self._granted
        first_token = now if self._first_token is None else self._first_token
        return Seconds(granted - self._came, first_token - granted, now - first_token)

    def timings(self, ticket: Ticket, predicted_n: int) -> Timings:
        """The figures of a generation that has ended."""
        account, seconds = ticket.ended.value, self.seconds()
        return Timings(
            prompt_n=min(
                account.computed, len(ticket.prompt) - account.cached
            ),  # `computed` has the output's rows, too
            cache_n=account.cached,
            prompt_ms=seconds.prefill * 1e3,
            predicted_n=predicted_n,
            predicted_ms=seconds.decode * 1e3,
            draft_n=account.drafted,
            draft_n_accepted=account.accepted,
        )
