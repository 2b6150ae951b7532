"""Messages that are sent whole: the same events as a stream's, collected into one object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from actors.core.generation import Finished
from runtime.chat.parts import CallArguments, CallEnd, CallStart, ReasoningPart, TextPart
from web.anthropic.answers.message import LeadingBlanks
from web.bodies.json_encoding import JsonStringBuilder, RawJson
from web.generation.answer_parts import AnswerParts

if TYPE_CHECKING:
    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.anthropic.answers.message import Json, MessageOptions


class MessageBuilder:
    """Builds the message of one request; a `collect.EventCollector`.  Pure, like `stream.MessageStream`.

    Args:
        options: how to answer.
        page_bytes: of the pages that the bytes are held in.
    """

    def __init__(self, options: MessageOptions, page_bytes: int) -> None:
        self._options = options
        self._page_bytes = page_bytes
        self._parts = AnswerParts(options.parser, 1, whole_calls=True)
        self._blocks: list[_Block] = []
        self._blanks = LeadingBlanks()
        self._length = 0
        self._end: Json = {}

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return self._length + self._parts.held

    def add(self, event: Progress) -> None:
        """Add one event."""
        for part in self._parts.of(event):
            self._add_part(part)
        if isinstance(event, Finished):
            end = self._options.end(event, self._parts)
            self._end = end.delta | end.rest

    def result(self) -> Json:
        """Return the message, whose long texts are `SelfEncoding`."""
        return self._options.message() | {"content": [block.result() for block in self._blocks]} | self._end

    def _add_part(self, part: Part) -> None:
        match part:
            case TextPart(text):
                self._add_text(text)
            case ReasoningPart(text):
                self._add_to(self._block("thinking"), text if self._options.show_thinking else "")
            case CallStart(call, name):
                self._append(_ToolUseBlock(self._options.call_id(call), name))
            case CallArguments(_, text):
                self._add_to(self._blocks[-1], text)
            case CallEnd():
                pass

    def _add_text(self, text: str) -> None:
        if self._last("text") is not None:
            self._add_to(self._blocks[-1], text)
        elif shown := self._blanks.push(text):
            self._add_to(self._block("text"), shown)

    def _add_to(self, block: _Block, text: str) -> None:
        before = len(block)
        block.add(text)
        self._length += len(block) - before

    def _last(self, kind: str) -> _Block | None:
        """Return the last block if it is of that type."""
        return self._blocks[-1] if self._blocks and self._blocks[-1].kind == kind else None

    def _block(self, kind: str) -> _Block:
        """Return the last block if it is of that type, or a new one."""
        return self._last(kind) or self._append(_TextBlock(kind, self._options, self._page_bytes))

    def _append(self, block: _Block) -> _Block:
        self._blanks.drop()
        self._blocks.append(block)
        self._length += len(block)
        return block


class _Block(ABC):
    """A content block that grows.  Its length is the number of bytes that it holds.

    Args:
        kind: its type.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __bool__(self) -> bool:
        """Tell that it is there, also without any text."""
        return True

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of bytes that it holds."""

    @abstractmethod
    def add(self, text: str) -> None:
        """Add more of its text."""

    @abstractmethod
    def result(self) -> Json:
        """Return the block."""


class _TextBlock(_Block):
    """A text, or a thought."""

    def __init__(self, kind: str, options: MessageOptions, page_bytes: int) -> None:
        super().__init__(kind)
        self._options = options
        self._text = JsonStringBuilder(page_bytes)

    def __len__(self) -> int:
        return len(self._text)

    def add(self, text: str) -> None:
        self._text.add(text)

    def result(self) -> Json:
        signed = {"signature": self._options.signature} if self.kind == "thinking" else {}
        return {"type": self.kind, self.kind: self._text, **signed}


class _ToolUseBlock(_Block):
    """A call of a tool."""

    def __init__(self, call_id: str, name: str) -> None:
        super().__init__("tool_use")
        self._id = call_id
        self._name = name
        self._pieces: list[str] = []
        self._length = len(name)

    def __len__(self) -> int:
        return self._length

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text.encode(errors="replace"))

    def result(self) -> Json:
        arguments = RawJson("".join(self._pieces))
        return {"type": self.kind, "id": self._id, "name": self._name, "input": arguments}
