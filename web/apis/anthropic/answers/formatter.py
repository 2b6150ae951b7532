"""A message: as a stream, whose events are named server-sent events, and as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Finished
from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart
from web.apis.anthropic.answers.objects import MessageParts
from web.apis.anthropic.errors import error_object
from web.bodies.json_encoding import RawJson, dumps
from web.generation.answer import TEXT, THOUGHT, Formatter, Gathered
from web.generation.control.cancel_note import cancel_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.apis.anthropic.answers.objects import Block, Delta, Event, Message, MessageOptions
    from web.bodies.errors.problem import Problem
    from web.generation.answer import Block as GatheredBlock


def named_event(fields: Event) -> bytes:
    """Encode an event, whose name is its `type`."""
    return f"event: {fields['type']}\ndata: {dumps(fields)}\n\n".encode()


PING = named_event({"type": "ping"})

DELTA_END = b'""}}\n\n'
"""The end of an empty delta, of the quotes of its text on."""


class MessageFormatter(Formatter):
    """Shows a message of Anthropic's.

    The message of a stream begins before the first token, as soon as anything is written.

    Args:
        options: how to answer.
        page_bytes: of the pages that a whole message is held in; None for a stream.
    """

    def __init__(self, options: MessageOptions, page_bytes: int | None = None) -> None:
        gathered = [Gathered(page_bytes, in_order=True, objects=True)] if page_bytes else []
        super().__init__(MessageParts(options, whole_calls=bool(gathered)), gathered=gathered)
        self._options = options
        self._begun = False
        self._open: str | None = None  # the type of the block that is open
        self._count = 0  # of the blocks that have ended
        self._head = b""  # what stands before the text of a delta of the open block

    def pieces(self, event: Progress, parts: Sequence[Part]) -> list[bytes]:
        """Return the events for an event of the engine's; see `Formatter`."""
        written = [self._opening(), *map(self._part, parts)]
        if isinstance(event, Finished):
            written += [self._close(), named_event(self._options.end(event, self.parts))]
        return written

    def keep_alive(self) -> bytes:
        """Return a ping, which is an event of its own, after the beginning of the message."""
        return self._opening() + PING

    def closing(self) -> bytes:
        """Return the end of a complete stream."""
        return named_event({"type": "message_stop"})

    def error(self, problem: Problem) -> bytes:
        """Return an event of its own for an error; see `Formatter`."""
        return named_event(error_object(problem, self._options.id))

    def _opening(self) -> bytes:
        """Return the beginning of the message, once."""
        if self._begun:
            return b""
        self._begun = True
        return named_event({"type": "message_start", "message": self._options.message()})

    def _part(self, part: Part) -> bytes:
        match part:
            case TextPart(text):
                return self._within(TEXT) + self._delta(text)
            case ReasoningPart(text):
                return self._within(THOUGHT) + self._delta(text)
            case CallStart(call, name):
                call_id = self._options.call_id(call)
                return self._start(
                    {"type": "tool_use", "id": call_id, "name": name, "input": {}},
                    {"type": "input_json_delta", "partial_json": ""},
                )
            case CallArguments(_, text):
                return self._delta(text)
            case CallEnd():
                return self._close()

    def _within(self, kind: str) -> bytes:
        """Return the beginning of a text or a thought, unless one of that kind is open."""
        if self._open == kind:
            return b""
        if kind == TEXT:
            return self._start({"type": "text", "text": ""}, {"type": "text_delta", "text": ""})
        return self._start(
            {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": ""}
        )

    def _start(self, block: Block, delta: Delta) -> bytes:
        """Return the beginning of a block, whose deltas look like this empty one."""
        ended = self._close()
        self._open = block["type"]
        empty = named_event({"type": "content_block_delta", "index": self._count, "delta": delta})
        self._head = empty.removesuffix(DELTA_END)
        return ended + named_event({"type": "content_block_start", "index": self._count, "content_block": block})

    def _delta(self, text: str) -> bytes:
        """Return a delta, at the cost of encoding its text alone."""
        return self._head + dumps(text).encode() + b"}}\n\n" if text else b""

    def _close(self) -> bytes:
        """Return the end of the open block; nothing if there is none."""
        if self._open is None:
            return b""
        signed = b""
        if self._open == THOUGHT:
            delta: Delta = {"type": "signature_delta", "signature": self._options.signature}
            signed = named_event({"type": "content_block_delta", "index": self._count, "delta": delta})
        written = signed + named_event({"type": "content_block_stop", "index": self._count})
        self._open = None
        self._count += 1
        return written

    def result(self) -> Message:
        """Return the message; see `Formatter`."""
        (gathered,) = self.gathered
        end = self._options.end(self.ends[0], self.parts)
        return {
            **self._options.message(),
            "content": [self._whole(block) for block in gathered.blocks],
            **end["delta"],
            "usage": end["usage"],
            **cancel_note(self.ends[0]),
        }

    def _whole(self, block: GatheredBlock) -> Block:
        content, start = block.content, block.start
        if isinstance(content, RawJson):
            assert start is not None
            return {"type": "tool_use", "id": self._options.call_id(start.call), "name": start.name, "input": content}
        if block.kind == THOUGHT:
            return {"type": "thinking", "thinking": content, "signature": self._options.signature}
        return {"type": "text", "text": content}
