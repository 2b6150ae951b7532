"""A worker's requests: each of the front door's is one of the engine's, with a cancel scope of its own."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from actors.core.generation import Failed, Finished
from actors.core.receipts import CancelReason
from actors.engine import client_disconnect
from runtime.errors import CedeError, ShuttingDown
from web.bodies.body_parser import BodyParser
from web.cluster.failures import dynamo_error
from web.cluster.handoff import Closed, handing_over
from web.cluster.settings import BEAT_SECONDS
from web.cluster.translation.chunks import SIGN_OF_LIFE, ChunkWriter, MarkingWriter
from web.cluster.translation.requests import Asked, completion_body, parse_asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from actors.core.generation import Event, GenerationRequest, Progress
    from actors.engine import Engine
    from actors.request import Request
    from web.cluster.handoff import Context, Handoff


class Attempts:
    """The attempts of requests that are being served; of each request, one at a time.

    A front door that has given a worker up may come back to it with the same request, under the same id, where the
    worker had only been out of reach, and maybe before the worker hears that the earlier attempt is not wanted any
    more.  So the later one waits for that one's end.  It does not bring it about: nothing says which of two attempts is
    the older one, and what was held up on its way may come last.
    """

    def __init__(self) -> None:
        self._turns: dict[str, trio.Lock] = {}

    @asynccontextmanager
    async def alone(self, request_id: str) -> AsyncIterator[None]:
        """Be the only attempt of this request while the scope lasts; waits for those that came before."""
        turn = self._turns.setdefault(request_id, trio.Lock())
        try:
            async with turn:
                yield
        finally:
            if not turn.locked():
                self._turns.pop(request_id, None)


logger = logging.getLogger("cede.web")

Json = dict[str, Any]
MAX_EVENTS = 256  # in one piece, for a reader who is behind
FIRST_BEAT = 0.01
"""Seconds from when a request is accepted to its first sign of life; each later one comes after twice the time.

Dynamo tells a worker of a client that hangs up, but not while the stream between worker and front door is still being
made: of such a client a worker knows only once it writes.
"""
Piece: TypeAlias = "list[Progress] | CedeError"
"""Of a request: what happened lately, nothing if it was just accepted; or the error that it ends with."""


class Backend:
    """Serves an engine to Dynamo.

    Args:
        engine: runs in the same thread, as does asyncio's loop.
        nursery: Trio's, in which requests run; open as long as any may come.
        supersedes: is told the name and the id of one that takes the place of another, before it is begun.
        beat: seconds after which a stream on which nothing comes says that it lives, at the latest.
    """

    def __init__(
        self,
        engine: Engine,
        nursery: trio.Nursery,
        supersedes: Callable[[str, str], None],
        beat: float = BEAT_SECONDS,
    ) -> None:
        self._engine = engine
        self._nursery = nursery
        self._supersedes = supersedes
        self._beat = beat
        self._parser = BodyParser(engine)
        self._attempts = Attempts()

    async def generate(self, fields: Mapping[str, Any], context: Context) -> AsyncIterator[Json]:
        """Yield the chunks of one request; asyncio's, called by Dynamo.

        When the client hangs up, or the front door is gone, the request's scope is cancelled in that moment, whatever
        this generator waits for.

        Raises:
            Exception: one of Dynamo's, which says what becomes of the request.
        """
        asked = Asked.read(context.id(), fields, self._engine.model.vocab_size)
        writer, beat = self._writer(asked), self._beat
        with handing_over(self._nursery, context, partial(self._run, asked)) as pieces:
            try:
                while True:
                    piece = await pieces.take(beat)
                    if piece is None:
                        beat = min(2 * beat, self._beat)
                        yield SIGN_OF_LIFE
                    elif isinstance(piece, CedeError):
                        raise dynamo_error(piece)
                    elif not piece:
                        beat = min(FIRST_BEAT, self._beat)
                    else:
                        for chunk in writer.chunks(piece):
                            yield chunk
            except Closed:
                return

    def _writer(self, asked: Asked) -> ChunkWriter:
        model = self._engine.model
        if asked.is_marked:
            return MarkingWriter(model.tokenizer, model.vocab_size, asked.emitted)
        return ChunkWriter(model.tokenizer)

    async def _run(self, asked: Asked, pieces: Handoff[Piece]) -> None:
        """Trio's side of a request, to its end."""
        if (error := await self._serve(asked, pieces)) is not None:
            await pieces.put(error)

    async def _serve(self, asked: Asked, pieces: Handoff[Piece]) -> CedeError | None:
        """Hand over what the engine makes of it; returns the error that ended it."""
        try:
            raw = completion_body(asked, self._engine.model.sampling.max_tokens)
            request = await self._parser.parse(lambda raw, model, most: parse_asked(raw, model, most, asked=asked), raw)
            async with self._attempts.alone(asked.id):
                if request.control.supersede is not None:
                    self._supersedes(request.control.supersede, request.id)
                return await self._open(request, pieces)
        except CedeError as error:
            return error
        except Exception:
            logger.exception("request %s of the front door failed", asked.id)
            return CedeError("internal error; the log says more")

    async def _open(self, request: GenerationRequest, pieces: Handoff[Piece]) -> CedeError | None:
        async with self._engine.open_request(request, disconnect_reason=client_disconnect) as opened:
            await pieces.put([])
            return await self._pass_on(opened, pieces)

    async def _pass_on(self, request: Request, pieces: Handoff[Piece]) -> CedeError | None:
        try:
            async for event in request:
                events = [event]
                while len(events) < MAX_EVENTS and (more := request.event_nowait()) is not None:
                    events.append(more)
                told, error = split_error(events)
                if told:
                    await pieces.put(told)
                if error is not None:
                    return error
        except CedeError as error:  # caught here, where no nursery has wrapped it yet
            return error
        return None


def split_error(events: list[Event]) -> tuple[list[Progress], CedeError | None]:
    """Return what the client is told, and the error that the request ends with.

    A generation that a shutdown has cancelled goes on at another worker, so that is an error here.
    """
    told: list[Progress] = []
    for event in events:
        match event:
            case Failed(error=error):
                return told, error
            case Finished(cancelled=CancelReason.SHUTDOWN):
                return told, ShuttingDown("the worker is shutting down")
            case _:
                told.append(event)
    return told, None
