"""The events of a streaming message, written as named server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished
from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart
from web.anthropic.answers.message import LeadingBlanks
from web.anthropic.errors import error_object
from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.bodies.json_encoding import dumps
from web.errors.problem import INTERNAL, Problem, report
from web.generation.answer_parts import AnswerParts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.core.generation import Event
    from runtime.chat.parts import Part
    from web.anthropic.answers.message import Json, MessageOptions


def named_event(fields: Json) -> bytes:
    """Encode an event, whose name is its `type`."""
    return f"event: {fields['type']}\ndata: {dumps(fields)}\n\n".encode()


PING = named_event({"type": "ping"})


class MessageStream:
    """Turns a request's events into Anthropic's; an `event_stream.EventWriter`.

    The message begins before the first token, as soon as anything is written.

    Args:
        options: how to answer.

    Attributes:
        finished: whether the generation has finished; then only `closing` is left to write.
        failed: whether an error was written; then nothing follows.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS

    def __init__(self, options: MessageOptions) -> None:
        self._options = options
        self._parts = AnswerParts(options.parser, 1)
        self._begun = False
        self._blocks = _Blocks(options)
        self.finished = False
        self.failed = False

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the bytes for `event` in fragments."""
        if self.failed:
            return ()
        if isinstance(event, Failed):
            report(event.error)
            return (self._fail(Problem.of(event.error)),)
        written = [self._opening(), *map(self._blocks.write, self._parts.of(event))]
        if isinstance(event, Finished):
            written += [self._blocks.close(), self._end(event)]
            self.finished = True
        return written

    def keep_alive(self) -> bytes:
        """Return a ping, which is an event of its own, after the beginning of the message."""
        return self._opening() + PING

    def closing(self) -> bytes:
        """Return the end of a complete stream."""
        return named_event({"type": "message_stop"})

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self._fail(INTERNAL)

    def _fail(self, problem: Problem) -> bytes:
        self.failed = True
        return named_event(error_object(problem, self._options.id))

    def _opening(self) -> bytes:
        """Return the beginning of the message, once."""
        if self._begun:
            return b""
        self._begun = True
        return named_event({"type": "message_start", "message": self._options.message()})

    def _end(self, event: Finished) -> bytes:
        end = self._options.end(event, self._parts)
        return named_event({"type": "message_delta", "delta": end.delta, **end.rest})


NO_THOUGHT: Json = {"type": "thinking", "thinking": "", "signature": ""}
DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
"""The type of a block's deltas, and the field that has their text, by the type of the block."""


class _Blocks:
    """Writes the content blocks of a stream, one after the other.

    Args:
        options: how to answer.
    """

    def __init__(self, options: MessageOptions) -> None:
        self._options = options
        self._open: str | None = None  # the type of the block that is open
        self._count = 0
        self._blanks = LeadingBlanks()
        self._head = ""  # what stands before the text of a delta of the open block

    def write(self, part: Part) -> bytes:
        """Return the events for a part."""
        match part:
            case TextPart(text):
                return self._text(text)
            case ReasoningPart(text):
                opening = b"" if self._open == "thinking" else self._start(NO_THOUGHT)
                return opening + (self._delta(text) if self._options.show_thinking else b"")
            case CallStart(call, name):
                block_id = self._options.call_id(call)
                return self._start({"type": "tool_use", "id": block_id, "name": name, "input": {}})
            case CallArguments(_, text):
                return self._delta(text)
            case CallEnd():
                return self.close()

    def close(self) -> bytes:
        """Return the end of the open block; nothing if there is none."""
        self._blanks.drop()
        if self._open is None:
            return b""
        signed = b""
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": self._options.signature}
            signed = named_event({"type": "content_block_delta", "index": self._count, "delta": delta})
        written = signed + named_event({"type": "content_block_stop", "index": self._count})
        self._open = None
        self._count += 1
        return written

    def _text(self, text: str) -> bytes:
        if self._open == "text":
            return self._delta(text)
        shown = self._blanks.push(text)
        return self._start({"type": "text", "text": ""}) + self._delta(shown) if shown else b""

    def _start(self, block: Json) -> bytes:
        ended = self.close()
        self._open = block["type"]
        kind, field = DELTAS[block["type"]]
        delta = f'{{"type":"content_block_delta","index":{self._count},"delta":{{"type":"{kind}","{field}":'
        self._head = f"event: content_block_delta\ndata: {delta}"
        return ended + named_event({"type": "content_block_start", "index": self._count, "content_block": block})

    def _delta(self, text: str) -> bytes:
        """Return a delta, at the cost of encoding its text alone."""
        return f"{self._head}{dumps(text)}}}}}\n\n".encode() if text else b""
