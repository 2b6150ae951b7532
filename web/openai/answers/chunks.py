"""Chunks: the objects of a streaming response in OpenAI's API, written as server-sent events."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, PromptScored, Token
from runtime.chat.parts import CallArguments, CallStart, TextPart
from web.bodies.event_stream import CONTENT_TYPE, HEADERS, iter_sse, sse
from web.bodies.json_encoding import dumps
from web.errors.problem import INTERNAL, Problem, report
from web.generation.answer_parts import AnswerParts
from web.openai.answers.format import call_of, ending
from web.openai.answers.prompt_scores import echoed_tokens
from web.openai.answers.usage import UsageCounter, timings
from web.openai.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Event
    from runtime.chat.parts import Part
    from web.openai.answers.format import Call, Json, ResponseOptions

DONE = b"data: [DONE]\n\n"


class ChunkWriter:
    """Turns a request's events into OpenAI's chunks; an `event_stream.EventWriter`.

    Args:
        options: how to answer.

    Attributes:
        failed: whether an error was written; then nothing follows.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS

    def __init__(self, options: ResponseOptions) -> None:
        self._options = options
        self._format = options.format
        self._counter = UsageCounter(options)
        self._parts = AnswerParts(options.parser, options.choices, one_text=True)
        self._unfinished = dict.fromkeys(range(options.choices))  # their indices, in order
        self._calls: dict[tuple[int, int], Call] = {}  # by choice and number
        self._offsets: dict[int, int] = {}  # for each choice that has begun: characters before its next token
        self._plain = not (options.logprobs or options.token_ids or options.running_usage)
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
            return (self.fail(Problem.of(event.error)),)
        opening: Iterable[bytes] = () if event.index in self._offsets else self._opening(event.index)
        match event:
            case Token():
                chunks = self._token(event)
            case PromptScored():
                chunks = self._echoed(event)
            case Finished():
                chunks = self._finished(event)
        return chain(opening, chunks) if opening else chunks

    def fail(self, problem: Problem) -> bytes:
        """Return the end of a stream that an error breaks off: without `[DONE]`, as in OpenAI's."""
        self.failed = True
        return sse(error_object(problem))

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self.fail(INTERNAL)

    def keep_alive(self) -> bytes:
        """Return a chunk without a text: a comment would not wake a client's timer for chunks."""
        index = next(iter(self._unfinished), 0)
        return sse(self._chunk(index, self._format.delta(None) or {}))

    def closing(self) -> bytes:
        """Return the end of a complete stream: the usage, if the client asked for it, and `[DONE]`."""
        if not self._options.include_usage:
            return DONE
        usage = self._counter.usage(self._parts.reasoning_tokens)
        last = self._options.envelope(self._format.chunk) | {"choices": [], "usage": usage}
        return sse(last | {"timings": self._counter.timings()}) + DONE

    def _opening(self, index: int) -> Iterable[bytes]:
        self._offsets[index] = 0
        fields = self._format.opening(self._options, index)
        if fields is None:
            return ()
        about = {"prompt_token_ids": self._options.prompts[index]} if self._options.token_ids else {}
        envelope, choice = self._format.about_prompt(about)
        opening = self._chunk(index, fields | choice) | envelope
        may_be_long = self._options.token_ids or self._options.echo
        return iter_sse(opening) if may_be_long else (sse(opening),)

    def _token(self, token: Token) -> Sequence[bytes]:
        parts = self._parts.of(token)
        self._counter.add_token()
        if self._plain:
            return [self._part(token.index, part) for part in parts]
        # The first of its chunks, which may show nothing else, has what is known of the token.
        first, *rest = parts or (TextPart(""),)
        shown = self._fields(token.index, first) or self._format.delta(None) or {}
        detailed = sse(self._chunk(token.index, shown | self._detailed(token)))
        return [detailed, *(self._part(token.index, part) for part in rest)]

    def _part(self, index: int, part: Part) -> bytes:
        if isinstance(part, TextPart):
            return self._text(index, part.text)
        fields = self._fields(index, part)
        return sse(self._chunk(index, fields)) if fields else b""

    def _fields(self, index: int, part: Part) -> Json:
        call = None
        if isinstance(part, CallStart):
            call = self._calls[index, part.call] = call_of(self._options, index, part)
        elif isinstance(part, CallArguments):
            call = self._calls[index, part.call]
        return self._format.delta(part, call) or {}

    def _text(self, index: int, text: str) -> bytes:
        """Return the chunk of a plain token, at the cost of encoding its text alone."""
        if not text:
            return b""
        return f"{self._heads[index]}{dumps(text)}{self._tail}".encode()

    def _echoed(self, event: PromptScored) -> Sequence[bytes]:
        """Return the log-probabilities of tokens of the prompt, whose text the opening has."""
        if self._options.echo_logprobs is None:
            return ()
        fields = self._logprobs(event.index, echoed_tokens(event, self._options.echo_logprobs))
        return [sse(self._chunk(event.index, (self._format.delta(None) or {}) | fields))]

    def _logprobs(self, index: int, tokens: Sequence[Token]) -> Json:
        tokenizer, offset = self._options.tokenizer, self._offsets[index]
        self._offsets[index] += sum(len(tokenizer.token_text(token.token_id)) for token in tokens)
        return {"logprobs": self._format.logprobs(tokens, tokenizer, offset)}

    def _detailed(self, token: Token) -> Json:
        fields: Json = {}
        if token.logprobs is not None:
            fields |= self._logprobs(token.index, [token])
        if self._options.token_ids:
            fields["token_ids"] = [token.token_id]
        return fields

    def _finished(self, event: Finished) -> Sequence[bytes]:
        self._counter.add(event)
        self._unfinished.pop(event.index)
        held_back = [self._part(event.index, part) for part in self._parts.of(event)]
        why = ending(self._format, event, self._parts.reason(event))
        last = self._chunk(event.index, (self._format.delta(None) or {}) | why)
        last["timings"] = timings([event.timings])
        return [*held_back, sse(last)]

    def _chunk(self, index: int, fields: Json) -> Json:
        chunk = self._options.envelope(self._format.chunk)
        chunk["choices"] = [{"index": index, "logprobs": None, "finish_reason": None} | fields]
        if self._options.running_usage:
            return chunk | {"usage": self._counter.running()}
        return chunk | {"usage": None} if self._options.include_usage else chunk

    def _text_template(self) -> tuple[list[str], str]:
        """Return what stands before the text of a plain chunk, for each choice, and what stands after it."""
        placeholder = "\0"
        heads, tail = [], ""
        for index in range(self._options.choices):
            chunk = sse(self._chunk(index, self._format.delta(TextPart(placeholder)) or {})).decode()
            head, _, tail = chunk.rpartition(dumps(placeholder))
            heads.append(head)
        return heads, tail
