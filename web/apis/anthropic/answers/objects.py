"""The objects that Anthropic's endpoints answer, and how a message is made: its usage, its end, and its parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field, RootModel
from typing_extensions import TypedDict

from actors.core.generation import FinishReason
from runtime.chat.parts import CallArguments, CallEnd, PlainParser, ReasoningPart, TextPart
from web.apis.anthropic.errors import Error as Error
from web.bodies.json_encoding import Long
from web.generation.answer_parts import TOOL_CALLS, AnswerParts
from web.generation.control.cancel_note import CancelNote, cancel_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core.generation import Finished, Progress
    from runtime.chat.parts import OutputParser, Part


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
