"""Server-sent events: a pure writer from engine events to bytes, and the response body that feeds it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio
from quart.wrappers.response import ResponseBody

from actors.generation import Failed, Finished, Token
from actors.receipts import CancelReason
from web.errors import INTERNAL_ERROR, describe, report
from web.replies import Tally, dumps, timings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

    from actors.generation import Event
    from actors.request import Request
    from web.replies import Format, Json, Reply

logger = logging.getLogger("cede.web")

HEADERS = {
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # asks nginx to pass each event on at once
}
CONTENT_TYPE = "text/event-stream; charset=utf-8"
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def sse(value: object) -> bytes:
    """One server-sent event."""
    return f"data: {dumps(value)}\n\n".encode()


class ChunkWriter:
    """Turns a request's events into OpenAI's chunks.  Pure: bytes out for events in.

    `finished` once every choice has; then `closing()` is all that is left to write.  `failed` once an error is
    written; then nothing is.
    """

    def __init__(self, reply: Reply, format: Format) -> None:
        self._reply = reply
        self._format = format
        self._tally = Tally(reply)
        self._unfinished = reply.choices
        self._offsets: dict[int, int] = {}  # for each choice that has begun: where its next token starts
        self._plain = not (reply.logprobs or reply.token_ids)
        self._heads, self._tail = self._text_template()
        self.failed = False

    @property
    def finished(self) -> bool:
        return not self._unfinished

    def write(self, events: Iterable[Event]) -> bytes:
        """The chunks for `events`, empty if there is nothing to show.  What follows an error is dropped."""
        return b"".join(self._event(event) for event in events if not self.failed)

    def fail(self, error: Json) -> bytes:
        """An error in the middle of a stream ends it, without `[DONE]`, as OpenAI's does."""
        self.failed = True
        return sse(error)

    def closing(self) -> bytes:
        """The usage, if asked for, and `[DONE]`."""
        if not self._reply.include_usage:
            return DONE
        last = self._reply.envelope(self._format.chunk) | {"choices": [], "usage": self._tally.usage()}
        return sse(last | {"timings": self._tally.timings()}) + DONE

    def _event(self, event: Event) -> bytes:
        if isinstance(event, Failed):
            report(event.error)
            return self.fail(describe(event.error))
        opening = b"" if event.index in self._offsets else self._opening(event.index)
        if isinstance(event, Token):
            return opening + self._token(event)
        return opening + self._finished(event)

    def _opening(self, index: int) -> bytes:
        self._offsets[index] = 0
        fields = self._format.opening(self._reply, index)
        if fields is None:
            return b""
        envelope, choice = self._format.prompt_ids(self._reply, index) if self._reply.token_ids else ({}, {})
        return sse(self._chunk(index, fields | choice) | envelope)

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
            fields["logprobs"] = self._format.logprobs([token], self._reply.tokenizer, offset)
            self._offsets[token.index] += len(self._reply.tokenizer.token_text(token.token_id))
        if self._reply.token_ids:
            fields["token_ids"] = [token.token_id]
        return fields

    def _finished(self, event: Finished) -> bytes:
        self._tally.add(event)
        self._unfinished -= 1
        last = self._chunk(event.index, self._format.delta(None) | {"finish_reason": event.reason})
        last["timings"] = timings([event.timings])
        return self._text(event.index, event.text) + sse(last)

    def _chunk(self, index: int, fields: Json) -> Json:
        chunk = self._reply.envelope(self._format.chunk)
        chunk["choices"] = [{"index": index, "logprobs": None, "finish_reason": None} | fields]
        return chunk | {"usage": None} if self._reply.include_usage else chunk

    def _text_template(self) -> tuple[list[str], str]:
        """What stands before (for each choice) and after the text of a plain chunk."""
        placeholder = "\0"
        heads, tail = [], ""
        for index in range(self._reply.choices):
            chunk = sse(self._chunk(index, self._format.delta(placeholder))).decode()
            head, _, tail = chunk.rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail


class EventStream(ResponseBody):
    """The body of a streaming response.

    It does not own the request, which is in its connection's exit stack; but it leaves it (`leave`) before it says
    `[DONE]`, so that a client who has read that finds the slot free, and can no longer cancel anything.

    All that the engine has buffered goes out in one write.  After `keep_alive` seconds of silence (in the queue, in a
    long prefill) a comment goes out, so that no proxy takes the connection for dead.
    """

    def __init__(
        self, request: Request, writer: ChunkWriter, keep_alive: float, leave: Callable[[], Awaitable[None]]
    ) -> None:
        self._request = request
        self._events = aiter(request)
        self._writer = writer
        self._keep_alive = keep_alive
        self._leave = leave
        self._ended = False

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        pass

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        try:
            return await (self._last_write() if self._writer.finished else self._next_write())
        except Exception as error:  # the headers are out: what is left is to say so, and to end in good order
            logger.error("a stream failed", exc_info=error)
            self._ended = True
            return self._writer.fail(INTERNAL_ERROR)

    async def _next_write(self) -> bytes:
        """What to send next, which is a comment if nothing comes in time."""
        written = b""
        with trio.move_on_after(self._keep_alive):
            while not written:
                written = self._writer.write(await self._next_events())
        if self._writer.failed:
            self._ended = True
            self._request.cancel(CancelReason.FAULT)  # no use in finishing the siblings
        return written or KEEP_ALIVE

    async def _last_write(self) -> bytes:
        self._ended = True
        await self._leave()
        return self._writer.closing()

    async def _next_events(self) -> list[Event]:
        """At least one event, and whatever else is there.  A wait that is cut short loses none."""
        if buffered := self._request.events_nowait():
            return buffered
        first = await anext(self._events)
        return [first, *self._request.events_nowait()]
