"""The events of one response: pure, and the same for a stream, a whole answer and a response in the background.

A whole answer is made of the same events, of which only the last state is kept.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from actors.core.generation import Finished, FinishReason, Token
from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart
from web.apis.responses.output.envelope import Ending, failure
from web.apis.responses.output.items import (
    CallOutput,
    CustomCallOutput,
    FunctionCallOutput,
    MessageOutput,
    ReasoningOutput,
)
from web.bodies.errors.problem import Problem
from web.bodies.event_stream import iter_sse, sse
from web.generation.answer import Formatter
from web.generation.answer_parts import AnswerParts, token_logprobs
from web.generation.control.fields import cancel_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.core.generation import Event as EngineEvent
    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from runtime.errors import CedeError
    from web.apis.responses.answers import AnyItem, Event, ItemEvent, Response, Usage
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.output.items import OutputItem
    from web.bodies.json_encoding import JsonObject, SelfEncoding
    from web.generation.answer_parts import TokenLogprobs


def frame(event: Event) -> Iterator[bytes]:
    """Encode an event of a response as a server-sent event, in fragments."""
    yield f"event: {event['type']}\n".encode()
    if "delta" in event:  # short, and the most frequent
        yield sse(event)
    else:
        yield from iter_sse(event)


class ResponseEvents:
    """Turns the engine's events into those of one response, each with its number.

    The iterators make their events when they are asked for them, and their long parts are the very texts that grow: an
    event is to be encoded before the next one is taken.

    Args:
        options: how to answer.

    Attributes:
        parts: of the answer, as the engine's events make them certain.
        ending: how the response ended; None while it has not.
        stored: False where the response was to be stored, and could not be.
    """

    def __init__(self, options: ResponseOptions) -> None:
        self._options = options
        self.parts = AnswerParts(options.parser, 1)
        self._numbers = count()
        self._items: list[OutputItem] = []
        self._values: list[AnyItem] = []  # of the items that are done
        self._open: int | None = None  # the item that grows
        self._calls: dict[int, int] = {}  # number of a call, number of its item
        self._waiting: list[Token] = []  # tokens whose text is held back by the parser
        self._usage: Usage | None = None
        self.ending: Ending | None = None
        self.stored, self._added = True, True

    def __len__(self) -> int:
        """Return the bytes that are held, about."""
        return sum(map(len, self._items))

    # --- events -------------------------------------------------------------------------------------------------------

    def opening(self) -> Iterator[Event]:
        """Yield the events with which a response begins, before there is anything of the engine's."""
        yield self._of_response("response.created")
        yield self.in_progress()

    def in_progress(self) -> Event:
        """Return the event that says that the response is being made; it may come at any time."""
        return self._of_response("response.in_progress")

    def of(self, event: Progress, parts: Sequence[Part]) -> Iterator[Event]:
        """Yield the events that an event of the engine's leads to, which made these parts certain, but for the last."""
        logprobs = self._logprobs(event, parts) if isinstance(event, Token) else []
        for part in parts:
            yield from self._part(part, logprobs)
            if isinstance(part, TextPart):
                logprobs = []
        if isinstance(event, Finished):
            ending = _ending(event)
            yield from self._close("completed" if ending.status == "completed" else "incomplete")
            self._usage = self._count(event)
            self.ending = ending

    def last(self) -> Event:
        """Return the last event, once the response has ended."""
        assert self.ending is not None
        return self._of_response(self.ending.event)

    def fail(self, ending: Ending) -> None:
        """End the response with an error, unless it has ended."""
        self.ending = self.ending or ending

    def response(self) -> Response:
        """Return the response object as it is now."""
        values = list(self._values)
        if self.ending is not None and self._open is not None:  # it failed in the middle of an item
            values.append(self._items[self._open].value("incomplete"))
        response = self._options.envelope(values if self.ending else [], self._usage, self.ending)
        if not self._added:
            response["conversation"] = None
        if not self.stored:
            response["store"] = False
        return response

    def came_out(self, stored: JsonObject) -> None:
        """Take note of the response as it was stored, or was not."""
        self.stored, self._added = bool(stored["store"]), stored["conversation"] is not None

    # --- items --------------------------------------------------------------------------------------------------------

    def _part(self, part: Part, logprobs: Sequence[TokenLogprobs]) -> Iterator[Event]:
        match part:
            case TextPart(text) if text:
                if not isinstance(self._current, MessageOutput):
                    item_id = self._id("msg")
                    yield from self._begin(MessageOutput(item_id, logprobs=self._options.logprobs))
                yield self._delta(text, logprobs)
            case ReasoningPart(text) if text:
                if not isinstance(self._current, ReasoningOutput):
                    yield from self._begin(ReasoningOutput(self._id("rs")))
                yield self._delta(text)
            case CallStart(call, name):
                made = CustomCallOutput if name in self._options.custom else FunctionCallOutput
                item_id = self._id("ctc" if name in self._options.custom else "fc")
                self._calls[call] = len(self._items)
                called = self._options.called(f"call_{self._options.key[:24]}{call}", name)
                yield from self._begin(made(item_id, called))
            case CallArguments(call, text) if text and self._calls.get(call) == self._open:
                yield self._delta(text)
            case CallEnd(call) if self._calls.get(call) == self._open:
                yield from self._close("completed", ended=True)

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._options.key}_{len(self._items)}"

    @property
    def _current(self) -> OutputItem | None:
        return None if self._open is None else self._items[self._open]

    def _begin(self, item: OutputItem) -> Iterator[Event]:
        yield from self._close("completed")
        self._open = len(self._items)
        self._items.append(item)
        yield self._of_item({"type": "response.output_item.added", "item": item.value("in_progress")})
        yield from map(self._of_item, item.opening())

    def _delta(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> Event:
        assert self._current is not None
        return self._of_item(self._current.delta(text, logprobs))

    def _close(self, status: str, *, ended: bool = False) -> Iterator[Event]:
        """Yield the end of the item that grows, if there is one; a call that was not `ended` is broken."""
        if self._current is None:
            return
        if isinstance(self._current, CallOutput) and not ended:
            status = "incomplete"
        else:
            yield from map(self._of_item, self._current.closing())
        value = self._current.value(status)
        yield self._of_item({"type": "response.output_item.done", "item": value})
        self._values.append(value)
        self._open = None

    def _of_response(self, kind: str) -> Event:
        return {"type": kind, "response": self.response(), "sequence_number": next(self._numbers)}

    def _of_item(self, event: ItemEvent) -> Event:
        assert self._open is not None
        return {**event, "output_index": self._open, "sequence_number": next(self._numbers)}

    # --- figures ------------------------------------------------------------------------------------------------------

    def _logprobs(self, token: Token, parts: Sequence[Part]) -> list[TokenLogprobs]:
        """Return the log-probabilities of the text that a token made certain, those before it included."""
        if not self._options.logprobs:
            return []
        self._waiting.append(token)
        if not parts:
            return []
        tokens, self._waiting = self._waiting, []
        if not isinstance(parts[-1], TextPart):
            return []
        return [token_logprobs(token, self._options.tokenizer) for token in tokens]

    def _count(self, finished: Finished) -> Usage:
        return {
            "input_tokens": finished.prompt_tokens,
            "input_tokens_details": {"cached_tokens": finished.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": finished.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": self.parts.reasoning_tokens},
            "total_tokens": finished.prompt_tokens + finished.completion_tokens,
        }


def _ending(finished: Finished) -> Ending:
    match finished.reason:
        case FinishReason.STOP:
            return Ending("completed", cancel_note=cancel_note(finished))
        case FinishReason.LENGTH:
            return Ending("incomplete", reason="max_output_tokens", cancel_note=cancel_note(finished))
        case FinishReason.CANCELLED:
            return Ending("cancelled", cancel_note=cancel_note(finished))


class ResponseFormatter(Formatter):
    """Shows a response.  It always holds the whole of it, for the last events of a stream repeat that.

    The last event is written by `closing`, when the response is stored: a client who has read it can refer to it.

    Args:
        options: how to answer.
        page_bytes: not looked at.

    Attributes:
        events: of the response.
    """

    holds = "text of"
    needs_whole = True

    def __init__(self, options: ResponseOptions, page_bytes: int | None = None) -> None:
        self.events = ResponseEvents(options)
        super().__init__(self.events.parts)
        self._cut: CedeError | None = None

    def __len__(self) -> int:
        """Return the number of bytes that are held, about."""
        return len(self.events)

    @property
    def finished(self) -> bool:
        """Return whether the output is whole; then only `closing` is left to write."""
        ending = self.events.ending
        return ending is not None and ending.status != "failed"

    def opening(self) -> bytes:
        """Return the beginning of the stream, which goes out before the engine has done anything."""
        return b"".join(fragment for event in self.events.opening() for fragment in frame(event))

    def write(self, event: EngineEvent) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments; see `Formatter`."""
        if self._cut is not None and not self.failed:
            return (self._fail(Problem.of(self._cut)),)
        return super().write(event)

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterator[bytes]:
        """Yield the events for one of the engine's; see `Formatter`."""
        for made in self.events.of(event, parts):
            yield from frame(made)
        if self.set_size is not None:
            self.set_size(len(self))

    def cut(self, error: CedeError) -> None:
        """Give the reader up: the next thing that it reads is this error.  See `Formatter`."""
        self._cut = error

    def error(self, problem: Problem) -> bytes:
        """Return the last event of a response that has failed; see `Formatter`."""
        self.events.fail(failure(problem))
        return b"".join(frame(self.events.last()))

    def closing(self) -> Iterator[bytes]:
        """Yield the last event, which has the whole response."""
        return frame(self.events.last())

    def keep_alive(self) -> bytes:
        """Return an event: some clients do not count comments as a sign of life."""
        return b"".join(frame(self.events.in_progress()))

    def add(self, event: Progress) -> None:
        """Add one event to the whole."""
        for _ in self.events.of(event, self.take(event)):
            pass

    @property
    def is_whole(self) -> bool:
        """Return true: it always holds the whole."""
        return True

    def came_out(self, answer: JsonObject | SelfEncoding) -> None:
        """Tell the response as it was stored; see `Formatter`."""
        assert isinstance(answer, dict)
        self.events.came_out(answer)

    def result(self) -> Response:
        """Return the response object, whose long parts are `SelfEncoding`."""
        return self.events.response()
