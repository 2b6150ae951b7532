"""Server-sent events: a pure writer from engine events to bytes, and the response body that feeds it."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

import trio
from quart.wrappers.response import ResponseBody

from actors.core.generation import Failed, Finished, Token
from actors.core.receipts import CancelReason
from web.bodies.json_encoding import PageBuffer, dumps, iter_json
from web.openai.errors import INTERNAL_ERROR, describe, report
from web.openai.formats import UsageCounter, timings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from types import TracebackType

    from actors.core.generation import Event
    from actors.request import Request
    from web.openai.formats import Format, Json, ResponseOptions

logger = logging.getLogger("cede.web")

HEADERS = {
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # asks nginx to pass each event on at once
}
CONTENT_TYPE = "text/event-stream; charset=utf-8"
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


MAX_EVENTS = 256
"""Events that are taken before others run: those whose text is held back make no bytes to bound them by."""


def sse(value: object) -> bytes:
    """One server-sent event."""
    return f"data: {dumps(value)}\n\n".encode()


def sse_pieces(value: object) -> Iterator[bytes]:
    """One server-sent event, which may be long."""
    yield b"data: "
    yield from iter_json(value)
    yield b"\n\n"


class ChunkWriter:
    """Turns a request's events into OpenAI's chunks.  Pure: bytes out for events in.

    `finished` once every choice has; then `closing()` is all that is left to write.  `failed` once an error is
    written; then nothing is.
    """

    def __init__(self, options: ResponseOptions, format: Format) -> None:
        self._options = options
        self._format = format
        self._counter = UsageCounter(options)
        self._unfinished = options.choices
        self._offsets: dict[int, int] = {}  # for each choice that has begun: where its next token starts
        self._plain = not (options.logprobs or options.token_ids)
        self._heads, self._tail = self._text_template()
        self.failed = False

    @property
    def finished(self) -> bool:
        return not self._unfinished

    def write(self, event: Event) -> Iterable[bytes]:
        """The chunks for `event`, none if there is nothing to show.  What follows an error is dropped.

        They come in pieces, since the first may hold a long prompt's token ids, which are to be taken before the next
        event is written.
        """
        if self.failed:
            return ()
        if isinstance(event, Failed):
            report(event.error)
            return (self.fail(describe(event.error)),)
        opening: Iterable[bytes] = () if event.index in self._offsets else self._opening(event.index)
        chunk = self._token(event) if isinstance(event, Token) else self._finished(event)
        return chain(opening, (chunk,)) if opening else (chunk,)

    def fail(self, error: Json) -> bytes:
        """An error in the middle of a stream ends it, without `[DONE]`, as OpenAI's does."""
        self.failed = True
        return sse(error)

    def closing(self) -> bytes:
        """The usage, if asked for, and `[DONE]`."""
        if not self._options.include_usage:
            return DONE
        last = self._options.envelope(self._format.chunk) | {"choices": [], "usage": self._counter.usage()}
        return sse(last | {"timings": self._counter.timings()}) + DONE

    def _opening(self, index: int) -> Iterable[bytes]:
        self._offsets[index] = 0
        fields = self._format.opening(self._options, index)
        if fields is None:
            return ()
        envelope, choice = self._format.prompt_ids(self._options, index) if self._options.token_ids else ({}, {})
        return sse_pieces(self._chunk(index, fields | choice) | envelope)

    def _token(self, token: Token) -> bytes:
        if not self._plain:
            return sse(self._chunk(token.index, self._detailed(token)))
        return self._text(token.index, token.text)

    def _text(self, index: int, text: str) -> bytes:
        """The chunk of every plain token: one dumps, of the text alone."""
        if not text:
            return b""
        return f"{self._heads[index]}{dumps(text)}{self._tail}".encode()

    def _detailed(self, token: Token) -> Json:
        fields = self._format.delta(token.text)
        if token.logprobs is not None:
            offset = self._offsets[token.index]
            fields["logprobs"] = self._format.logprobs([token], self._options.tokenizer, offset)
            self._offsets[token.index] += len(self._options.tokenizer.token_text(token.token_id))
        if self._options.token_ids:
            fields["token_ids"] = [token.token_id]
        return fields

    def _finished(self, event: Finished) -> bytes:
        self._counter.add(event)
        self._unfinished -= 1
        last = self._chunk(event.index, self._format.delta(None) | {"finish_reason": event.reason})
        last["timings"] = timings([event.timings])
        return self._text(event.index, event.text) + sse(last)

    def _chunk(self, index: int, fields: Json) -> Json:
        chunk = self._options.envelope(self._format.chunk)
        chunk["choices"] = [{"index": index, "logprobs": None, "finish_reason": None} | fields]
        return chunk | {"usage": None} if self._options.include_usage else chunk

    def _text_template(self) -> tuple[list[str], str]:
        """What stands before (for each choice) and after the text of a plain chunk."""
        placeholder = "\0"
        heads, tail = [], ""
        for index in range(self._options.choices):
            chunk = sse(self._chunk(index, self._format.delta(placeholder))).decode()
            head, _, tail = chunk.rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail


class EventStream(ResponseBody):
    """The body of a streaming response.

    It does not own the request, which is in its connection's exit stack; but it leaves it (`leave`) before it says
    `[DONE]`, so that a client who has read that finds the slot free, and can no longer cancel anything.

    What the engine has buffered goes out in writes of a bounded size, and others run between any two.  After
    `keep_alive` seconds of silence (in the queue, in a long prefill) a comment goes out, so that no proxy takes the
    connection for dead.

    Args:
        request: open, and nobody else's to read.
        writer: fresh.
        keep_alive: seconds.
        leave: see above.
        write_bytes: of one write.
    """

    def __init__(
        self,
        request: Request,
        writer: ChunkWriter,
        keep_alive: float,
        leave: Callable[[], Awaitable[None]],
        write_bytes: int,
    ) -> None:
        self._request = request
        self._events = aiter(request)
        self._writer = writer
        self._keep_alive = keep_alive
        self._leave = leave
        self._most = write_bytes
        self._pieces: Iterator[bytes] = iter(())  # of the event that was taken last
        self._made = PageBuffer(write_bytes)
        self._ended = False  # nothing follows what is made

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        pass

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        if self._ended and not self._made:
            raise StopAsyncIteration
        try:
            await self._make()
        except Exception as error:  # the headers are out: what is left is to say so, and to end in good order
            logger.error("a stream failed", exc_info=error)
            self._ended = True
            self._made.write(self._writer.fail(INTERNAL_ERROR))
        return self._made.take() or KEEP_ALIVE

    async def _make(self) -> None:
        """Make what to send next, unless nothing comes in time."""
        if self._ended:
            await trio.lowlevel.checkpoint()
        elif self._fill():
            await trio.lowlevel.checkpoint()  # the reader is behind: nobody waits until it has caught up
        elif self._writer.finished:
            await self._close()
        else:
            with trio.move_on_after(self._keep_alive):
                await self._wait()
        if self._writer.failed and not self._ended:
            self._ended = True
            self._request.cancel(CancelReason.FAULT)  # no use in finishing the siblings

    async def _wait(self) -> None:
        """Until there is something to send.  Cut short, it has lost nothing."""
        something = False
        while not something:
            self._pieces = iter(self._writer.write(await anext(self._events)))
            something = self._fill()

    async def _close(self) -> None:
        self._ended = True
        await self._leave()
        self._made.write(self._writer.closing())

    def _fill(self) -> bool:
        """Make one write of what is there, or as much of one as there is; whether that is anything."""
        taken = 0
        while len(self._made) < self._most:
            if (piece := next(self._pieces, None)) is not None:
                self._made.write(piece)
            elif taken < MAX_EVENTS and (event := self._request.event_nowait()) is not None:
                self._pieces = iter(self._writer.write(event))
                taken += 1
            else:
                break
        return bool(self._made)
