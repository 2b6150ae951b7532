"""Makes one response without regard to its client: the engine's events become its log, and its end is stored."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Failed
from web.apis.responses.output.envelope import Ending, failure
from web.apis.responses.output.events import ResponseEvents, frame
from web.apis.responses.stored.archive import store_ended
from web.bodies.errors.problem import INTERNAL, Problem
from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.storage.objects import encoded
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from actors.generating.unread import Backlog
    from runtime.errors import CedeError
    from web.apis.responses.answers import Event, Response
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.stored.archive import Archive
    from web.apis.responses.stored.conversations import ConversationLease
    from web.generation.asked import Asked
    from web.storage.detached.disconnects import Followed
    from web.storage.detached.event_log import EventLog
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs

logger = logging.getLogger("cede.web")


class Making:
    """A response that is being made; it lives for as long as that takes.  A `web.storage.detached.runs.Maker`.

    Args:
        parsed: the request.
        archive: where the response is stored; None where nothing is.
        keep_alive: seconds of silence after which an event says that it is alive.
        turn: of its conversation; None where it has none.

    Attributes:
        begun: the response object as it was when it was admitted; None before.
    """

    streamed = True
    content_type = CONTENT_TYPE
    headers: Mapping[str, str] = HEADERS

    def __init__(
        self,
        parsed: Asked[ResponseOptions],
        archive: Archive | None,
        keep_alive: float,
        turn: ConversationLease | None = None,
    ) -> None:
        self._parsed = parsed
        self._archive = archive
        self._keep_alive = keep_alive
        self._turn = turn
        self._events = ResponseEvents(parsed.options)
        self.begun: Response | None = None

    async def begin(self, log: EventLog) -> CedeError | None:
        """Tell that the request is admitted; one in the background is stored as one that has begun."""
        for event in self._events.opening():
            _tell(log, event)
        self.begun = self._events.response()
        if not self._parsed.options.background:
            return None
        given = await encoded(self._parsed.options.input)
        if self._archive is None or not await self._archive.save(self._parsed, self.begun, given, live=True):
            return StoreFailed("The response cannot be stored, as one in the background has to be.")
        return None

    async def follow(self, request: Followed, log: EventLog, backlog: Backlog) -> None:
        """Turn the engine's events into the response's, until it has ended."""
        backlog.on_cut = request.give_up
        events = aiter(request)
        while self._events.ending is None:
            with trio.move_on_after(self._keep_alive) as silence:
                event = await anext(events)
            if silence.cancelled_caught:
                _tell(log, self._events.in_progress())
            elif backlog.error is not None:
                self._events.fail(failure(Problem.of(backlog.error)))
            elif isinstance(event, Failed):
                self._events.fail(failure(Problem.of(event.error)))
            else:
                for made in self._events.of(event, self._events.parts.of(event)):
                    _tell(log, made)
            backlog.set_size(log.held + len(self._events))

    def fail(self) -> None:
        """Let the response end with an error of the server's own."""
        self._events.fail(failure(INTERNAL))

    async def end(self, log: EventLog) -> None:
        """Store the response, however it ended, and then tell its end."""
        self._events.fail(Ending("cancelled"))  # without effect on one that has ended
        try:
            stored = await store_ended(self._archive, self._parsed, self._turn, self._events.response())
            self._events.came_out(stored)
        except Exception as error:  # it would end all others, and the server
            logger.error("%s could not be stored", self._parsed.request.id, exc_info=error)
            self._events.stored = False
        _tell(log, self._events.last())


def _tell(log: EventLog, event: Event) -> None:
    log.append(b"".join(frame(event)))


class BackgroundResponses:
    """Begins responses in the background; `runs` has them from then on.

    Args:
        runs: their owner.
        archive: where they are stored, from their admission on.
        keep_alive: seconds of silence after which a stream says that it is alive.

    Attributes:
        runs: the same.
    """

    def __init__(self, runs: Runs, archive: Archive, keep_alive: float) -> None:
        self.runs = runs
        self._archive = archive
        self._keep_alive = keep_alive

    async def start(
        self, parsed: Asked[ResponseOptions], place: ExitStack, turn: ConversationLease | None = None
    ) -> tuple[Run, Response]:
        """Begin a response, and return it, and the response object, once it is admitted and stored.

        Args:
            parsed: the request, as its client may ask it.
            place: what the client's key has in use for it.  If the response begins, this is emptied, and what was in
                it is left when the response has ended.
            turn: of its conversation, which is to be in `place`, too; None where it has none.

        Raises:
            CedeError: it is refused, or cannot be stored.
        """
        making = Making(parsed, self._archive, self._keep_alive, turn)
        run = await self.runs.start(replace(parsed.request, timeout=self.runs.bounds.timeout), making, place)
        assert making.begun is not None
        return run, making.begun
