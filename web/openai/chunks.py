"""Chunks: the objects of a streaming response in OpenAI's API, written as server-sent events."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, Token
from web.bodies.event_stream import iter_sse, sse
from web.bodies.json_encoding import dumps
from web.openai.errors import INTERNAL_ERROR, describe, report
from web.openai.usage import UsageCounter, timings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.core.generation import Event
    from web.openai.formats import Format, Json, ResponseOptions

DONE = b"data: [DONE]\n\n"


class ChunkWriter:
    """Turns a request's events into OpenAI's chunks; an `event_stream.EventWriter`.

    Args:
        options: how to answer.
        format: of the endpoint.

    Attributes:
        failed: whether an error was written; then nothing follows.
    """

    def __init__(self, options: ResponseOptions, format: Format) -> None:
        self._options = options
        self._format = format
        self._counter = UsageCounter(options)
        self._unfinished = options.choices
        self._offsets: dict[int, int] = {}  # for each choice that has begun: characters before its next token
        self._plain = not (options.logprobs or options.token_ids)
        self._heads, self._tail = self._text_template()
        self.failed = False

    @property
    def finished(self) -> bool:
        """Whether every choice has finished; then only `closing` is left to write."""
        return not self._unfinished

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the chunks for `event` in fragments; none if there is nothing to show, or an error was written.

        The first chunk of a choice may hold the token ids of a long prompt.  Its fragments are to be taken before the
        next event is written.
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
        """Return the end of a stream that an error breaks off: without `[DONE]`, as in OpenAI's."""
        self.failed = True
        return sse(error)

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self.fail(INTERNAL_ERROR)

    def closing(self) -> bytes:
        """Return the end of a complete stream: the usage, if the client asked for it, and `[DONE]`."""
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
        return iter_sse(self._chunk(index, fields | choice) | envelope)

    def _token(self, token: Token) -> bytes:
        if not self._plain:
            return sse(self._chunk(token.index, self._detailed(token)))
        return self._text(token.index, token.text)

    def _text(self, index: int, text: str) -> bytes:
        """Return the chunk of a plain token, at the cost of encoding its text alone."""
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
        """Return what stands before the text of a plain chunk, for each choice, and what stands after it."""
        placeholder = "\0"
        heads, tail = [], ""
        for index in range(self._options.choices):
            chunk = sse(self._chunk(index, self._format.delta(placeholder))).decode()
            head, _, tail = chunk.rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail
