"""The items of an output as they grow, and what their events say.  Sequence numbers are added by `events`.

Events repeat the texts: whole, in an item, and in the response.  So these can be encoded as often as needed while they
grow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from web.bodies.json_encoding import SelfEncoding, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from web.apis.responses.answers import AnyItem, Called, ItemEvent, Part
    from web.bodies.json_encoding import Long
    from web.generation.answer_parts import TokenLogprobs

T = TypeVar("T")

BLOCK = 4096
"""Characters of JSON that are yielded at a time, about."""


class _Blocks:
    """Short strings, joined into blocks as they come."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._rest: list[str] = []
        self._rest_length = 0
        self.length = 0

    def add(self, text: str) -> None:
        self._rest.append(text)
        self._rest_length += len(text)
        self.length += len(text)
        if self._rest_length >= BLOCK:
            self._blocks.append("".join(self._rest))
            self._rest, self._rest_length = [], 0

    def __iter__(self) -> Iterator[str]:
        yield from self._blocks
        if self._rest:
            yield "".join(self._rest)


class GrowingText(SelfEncoding[str]):
    """A string.  Its length is its number of characters."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def __len__(self) -> int:
        """Return the number of characters."""
        return self._blocks.length

    def __str__(self) -> str:
        """Return all of it."""
        return "".join(self._blocks)

    def add(self, text: str) -> None:
        """Add a few characters at the end."""
        self._blocks.add(text)

    def iter_json(self) -> Iterator[bytes]:
        """Yield the string's JSON in fragments."""
        yield b'"'
        for block in self._blocks:
            yield dumps(block)[1:-1].encode()
        yield b'"'


class GrowingArray(SelfEncoding[list[T]]):
    """An array of small values, which are encoded as they come.  Its length is the bytes that they take."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def __len__(self) -> int:
        """Return the number of bytes that the elements take."""
        return self._blocks.length

    def add(self, element: T) -> None:
        """Add an element at the end."""
        self._blocks.add(("," if self._blocks.length else "") + dumps(element))

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array's JSON in fragments."""
        yield b"["
        for block in self._blocks:
            yield block.encode()
        yield b"]"


IN_PROGRESS = "in_progress"


class OutputItem(ABC):
    """One item of an output, which has one text.  Its length is the bytes that are held for it, about.

    Attributes:
        id: of the item.
        text: so far.
        event: what its events are called, before `.delta` and `.done`.
    """

    event: ClassVar[str]

    def __init__(self, id: str) -> None:
        self.id = id
        self.text = GrowingText()

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self.text)

    @abstractmethod
    def value(self, status: str) -> AnyItem:
        """Return the item as JSON, whose long parts are `SelfEncoding`."""

    def opening(self) -> Iterator[ItemEvent]:
        """Yield the events with which its content begins."""
        yield from ()

    @abstractmethod
    def delta(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> ItemEvent:
        """Add a text, and return the event that tells it."""

    @abstractmethod
    def closing(self) -> Iterator[ItemEvent]:
        """Yield the events with which its content ends."""


class SaidOutput(OutputItem):
    """An item with one part, which the model said or thought."""

    def opening(self) -> Iterator[ItemEvent]:
        """Yield the beginning of its one part; see `OutputItem`."""
        yield self._of_part("added")

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> ItemEvent:
        """Add a text; see `OutputItem`."""
        self.text.add(text)
        return {"type": f"response.{self.event}.delta", "item_id": self.id, "content_index": 0, "delta": text}

    def closing(self) -> Iterator[ItemEvent]:
        """Yield the whole text, and the whole part; see `OutputItem`."""
        yield self._whole()
        yield self._of_part("done")

    def _whole(self) -> ItemEvent:
        return {"type": f"response.{self.event}.done", "item_id": self.id, "content_index": 0, "text": self.text}

    def _of_part(self, happened: str) -> ItemEvent:
        kind = f"response.content_part.{happened}"
        return {"type": kind, "item_id": self.id, "content_index": 0, "part": self._part()}

    def _content(self, status: str) -> list[Part]:
        return [self._part()] if status != IN_PROGRESS else []

    @abstractmethod
    def _part(self) -> Part:
        """Return its one part."""


class MessageOutput(SaidOutput):
    """A message of the model's."""

    event = "output_text"

    def __init__(self, id: str, *, logprobs: bool) -> None:
        super().__init__(id)
        self._logprobs: GrowingArray[TokenLogprobs] = GrowingArray()
        self._shows_logprobs = logprobs

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self.text) + len(self._logprobs)

    def value(self, status: str) -> AnyItem:
        """Return the item; see `OutputItem`."""
        content = self._content(status)
        return {"id": self.id, "type": "message", "role": "assistant", "status": status, "content": content}

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> ItemEvent:
        """Add a text; see `OutputItem`."""
        for logprob in logprobs:
            self._logprobs.add(logprob)
        return super().delta(text) | {"logprobs": list(logprobs)}

    def _part(self) -> Part:
        logprobs: Long[list[TokenLogprobs]] = self._logprobs if self._shows_logprobs else []
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": logprobs}

    def _whole(self) -> ItemEvent:
        return super()._whole() | {"logprobs": self._logprobs}


class ReasoningOutput(SaidOutput):
    """Thoughts of the model, which are shown as they are: there is no summary."""

    event = "reasoning_text"

    def value(self, status: str) -> AnyItem:
        """Return the item; see `OutputItem`."""
        content = self._content(status)
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}

    def _part(self) -> Part:
        return {"type": "reasoning_text", "text": self.text}


class CallOutput(OutputItem):
    """A call of a tool.

    Args:
        id: of the item.
        called: the tool, and the id of the call.
    """

    def __init__(self, id: str, called: Called) -> None:
        super().__init__(id)
        self._called = called

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> ItemEvent:
        """Add a text; see `OutputItem`."""
        self.text.add(text)
        return {"type": f"response.{self.event}.delta", "item_id": self.id, "delta": text}


class FunctionCallOutput(CallOutput):
    """A call of a function."""

    event = "function_call_arguments"

    def value(self, status: str) -> AnyItem:
        """Return the item; see `OutputItem`."""
        return {"id": self.id, "type": "function_call", "status": status, **self._called, "arguments": self.text}

    def closing(self) -> Iterator[ItemEvent]:
        """Yield the whole arguments; see `OutputItem`."""
        name = self._called["name"]
        yield {"type": f"response.{self.event}.done", "item_id": self.id, "name": name, "arguments": self.text}


class CustomCallOutput(CallOutput):
    """A call of a custom tool, whose input is a text."""

    event = "custom_tool_call_input"

    def value(self, status: str) -> AnyItem:
        """Return the item; see `OutputItem`."""
        return {"id": self.id, "type": "custom_tool_call", "status": status, **self._called, "input": self.text}

    def closing(self) -> Iterator[ItemEvent]:
        """Yield the whole input; see `OutputItem`."""
        yield {"type": f"response.{self.event}.done", "item_id": self.id, "input": self.text}
