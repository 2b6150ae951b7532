"""The objects that Anthropic's endpoints answer, and how a message is made, as a stream of named events or whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field, RootModel
from typing_extensions import TypedDict

from actors.core.generation import Finished, FinishReason
from runtime.chat.parts import CallArguments, CallEnd, CallStart, PlainParser, ReasoningPart, TextPart
from web.apis.anthropic.errors import Error as Error
from web.apis.anthropic.errors import error_object
from web.bodies.json_encoding import Long, RawJson, dumps
from web.generation.answer import TEXT, THOUGHT, Formatter, Gathered
from web.generation.answer_parts import TOOL_CALLS, AnswerParts
from web.generation.control.fields import CancelNote, cancel_note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import OutputParser, Part
    from web.bodies.errors.problem import Problem
    from web.generation.answer import Block as GatheredBlock


class OutputTokensDetails(TypedDict):
    """Details of the tokens of the answer."""

    thinking_tokens: int


class Usage(TypedDict):
    """Usage of the request; the tokens of its prompt are the sum of the first three."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails


class Text(TypedDict):
    """A text."""

    type: Literal["text"]
    text: Long[str]


class Thought(TypedDict):
    """The model's thoughts before its answer."""

    type: Literal["thinking"]
    thinking: Long[str]
    signature: str


class ToolUse(TypedDict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: Long[dict[str, object]]


Block = Annotated[Text | Thought | ToolUse, Field(discriminator="type")]
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class Message(TypedDict):
    """A message; at the beginning of a stream it is empty."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage
    cede: NotRequired[CancelNote]


class TokenCount(TypedDict):
    """Number of tokens of a prompt."""

    input_tokens: int


# --- the events of a stream -------------------------------------------------------------------------------------------


class MessageStart(TypedDict):
    """The message begins."""

    type: Literal["message_start"]
    message: Message


class BlockStart(TypedDict):
    """A content block begins."""

    type: Literal["content_block_start"]
    index: int
    content_block: Block


class TextDelta(TypedDict):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    """More of a thought."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """The signature of a thought."""

    type: Literal["signature_delta"]
    signature: str


class InputDelta(TypedDict):
    """More of the JSON of a call's input."""

    type: Literal["input_json_delta"]
    partial_json: str


Delta = Annotated[TextDelta | ThinkingDelta | SignatureDelta | InputDelta, Field(discriminator="type")]


class BlockDelta(TypedDict):
    """More of the content block that is open."""

    type: Literal["content_block_delta"]
    index: int
    delta: Delta


class BlockStop(TypedDict):
    """The content block ends."""

    type: Literal["content_block_stop"]
    index: int


class Stopped(TypedDict):
    """Reason why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The message ends: why, and what it took."""

    type: Literal["message_delta"]
    delta: Stopped
    usage: Usage
    cede: NotRequired[CancelNote]


class MessageStop(TypedDict):
    """End of the stream: nothing follows."""

    type: Literal["message_stop"]


class Ping(TypedDict):
    """A sign of life, which may come at any time after the beginning."""

    type: Literal["ping"]


Event = Annotated[
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | Error,
    Field(discriminator="type"),
]


class StreamEvent(RootModel[Event]):
    """One event of a stream, whose name is its type."""


# --- how a message is made --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """Options of a request for its answer.

    Attributes:
        id: of the request and its message.
        model: the name that the client used.
        prompt_tokens: of the prompt.
        room: tokens after the prompt in the context, where the client's `max_tokens` is more than that; else None.
        show_thinking: whether a thinking block has its text.
        parser: makes the parser of the answer.
    """

    id: str
    model: str
    prompt_tokens: int
    room: int | None = None
    show_thinking: bool = True
    parser: Callable[[], OutputParser] = PlainParser

    def message(self) -> Message:
        """Return the message object before anything is in it."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(self.prompt_tokens, 0, 0, 0),
        }

    def call_id(self, call: int) -> str:
        """Return the id of call number `call`: the same in a stream and in a whole message."""
        digest = hashlib.blake2b(f"{self.id}/{call}".encode(), digest_size=12)
        return f"toolu_{digest.hexdigest()}"

    @property
    def signature(self) -> str:
        """The signature of a thinking block, which clients send back: the message's id, for nothing is signed here."""
        return self.id

    def end(self, finished: Finished, parts: AnswerParts) -> MessageDelta:
        """Return the event that a message ends with.

        Args:
            finished: the generation's last event.
            parts: of the answer, after the last of them.
        """
        stop_string = finished.stop_string if finished.reason is FinishReason.STOP else None
        counted = finished.completion_tokens, parts.reasoning_tokens
        return {
            "type": "message_delta",
            "delta": {"stop_reason": self._stop_reason(finished, parts), "stop_sequence": stop_string},
            "usage": usage(self.prompt_tokens, finished.cached_tokens, *counted),
            **cancel_note(finished),
        }

    def _stop_reason(self, finished: Finished, parts: AnswerParts) -> StopReason:
        """Return why a message ended.

        An answer that an operator, a deadline or a shutdown has cut short says `max_tokens`: of Anthropic's words it is
        the one for an answer that is not whole.
        """
        if finished.reason is FinishReason.STOP:
            if finished.stop_string is not None:
                return "stop_sequence"
            return "tool_use" if parts.reason(finished) == TOOL_CALLS else "end_turn"
        if finished.reason is FinishReason.LENGTH and self.room is not None:
            return "model_context_window_exceeded"
        return "max_tokens"


def usage(prompt_tokens: int, cached_tokens: int, completion_tokens: int, thinking_tokens: int) -> Usage:
    """Return Anthropic's `usage`, in which the prompt's tokens that were found already computed count by themselves."""
    return {
        "input_tokens": prompt_tokens - cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached_tokens,
        "output_tokens": completion_tokens,
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
    }


class MessageParts(AnswerParts):
    """The parts of a message as Anthropic's API has them: no text is blank, and thoughts may be hidden.

    What models write between their thought and a call is blank, and means nothing: it is held until a text follows.

    Args:
        options: how to answer.
        whole_calls: see `AnswerParts`.
    """

    def __init__(self, options: MessageOptions, *, whole_calls: bool) -> None:
        super().__init__(options.parser, 1, whole_calls=whole_calls)
        self._shows_thinking = options.show_thinking
        self._blank = ""  # the beginning of a text
        self._open: type[Part] | None = None  # what the block that is open is made of

    def of(self, event: Progress) -> list[Part]:
        """Return the parts that an event makes certain; see `AnswerParts`."""
        return [shown for part in super().of(event) if (shown := self._shown(part)) is not None]

    def _shown(self, part: Part) -> Part | None:
        match part:
            case TextPart(text):
                if self._open is not TextPart:
                    self._blank += text
                    if not text.strip():
                        return None
                    part, self._blank, self._open = TextPart(self._blank), "", TextPart
                return part if part.text else None
            case ReasoningPart() if self._open is ReasoningPart:
                pass
            case CallArguments():
                return part
            case _:
                self._blank, self._open = "", None if isinstance(part, CallEnd) else type(part)
        return ReasoningPart("") if isinstance(part, ReasoningPart) and not self._shows_thinking else part


# --- a message as it is written ---------------------------------------------------------------------------------------


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
