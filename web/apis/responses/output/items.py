"""The items of an output as they grow, and what their events say.  Sequence numbers are added by `events`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from web.apis.responses.output.growing import GrowingArray, GrowingText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Json = dict[str, Any]

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
    def value(self, status: str) -> Json:
        """Return the item as JSON, whose long parts are `SelfEncoding`."""

    def opening(self) -> Iterator[Json]:
        """Yield the events with which its content begins."""
        yield from ()

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add a text, and return the event that tells it."""
        self.text.add(text)
        return {"type": f"response.{self.event}.delta", **self._place(), "delta": text}

    @abstractmethod
    def closing(self) -> Iterator[Json]:
        """Yield the events with which its content ends."""

    def _place(self) -> Json:
        return {"item_id": self.id}


class SaidOutput(OutputItem):
    """An item with one part, which the model said or thought."""

    def _place(self) -> Json:
        return {"item_id": self.id, "content_index": 0}

    def opening(self) -> Iterator[Json]:
        """Yield the beginning of its one part; see `OutputItem`."""
        yield {"type": "response.content_part.added", **self._place(), "part": self._part()}

    def closing(self) -> Iterator[Json]:
        """Yield the whole text, and the whole part; see `OutputItem`."""
        yield {"type": f"response.{self.event}.done", **self._place(), "text": self.text} | self._beside()
        yield {"type": "response.content_part.done", **self._place(), "part": self._part()}

    def _content(self, status: str) -> list[Json]:
        return [self._part()] if status != IN_PROGRESS else []

    @abstractmethod
    def _part(self) -> Json:
        """Return its one part."""

    def _beside(self) -> Json:
        """Return what is told beside its whole text."""
        return {}


class MessageOutput(SaidOutput):
    """A message of the model's."""

    event = "output_text"

    def __init__(self, id: str, *, logprobs: bool) -> None:
        super().__init__(id)
        self._logprobs = GrowingArray()
        self._shows_logprobs = logprobs

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self.text) + len(self._logprobs)

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        content = self._content(status)
        return {"id": self.id, "type": "message", "role": "assistant", "status": status, "content": content}

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add a text; see `OutputItem`."""
        for logprob in logprobs:
            self._logprobs.add(logprob)
        return super().delta(text) | {"logprobs": list(logprobs)}

    def _part(self) -> Json:
        logprobs: object = self._logprobs if self._shows_logprobs else []
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": logprobs}

    def _beside(self) -> Json:
        return {"logprobs": self._logprobs}


class ReasoningOutput(SaidOutput):
    """Thoughts of the model, which are shown as they are: there is no summary."""

    event = "reasoning_text"

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        content = self._content(status)
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}

    def _part(self) -> Json:
        return {"type": "reasoning_text", "text": self.text}


class CallOutput(OutputItem):
    """A call of a tool.

    Args:
        id: of the item.
        call_id: of the call.
        called: the fields that say what is called.
    """

    type: ClassVar[str]
    field: ClassVar[str]

    def __init__(self, id: str, call_id: str, called: Json) -> None:
        super().__init__(id)
        self._call = {"call_id": call_id, **called}

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        return {"id": self.id, "type": self.type, "status": status, **self._call, self.field: self.text}

    def closing(self) -> Iterator[Json]:
        """Yield the whole arguments, or input; see `OutputItem`."""
        name = {"name": self._call["name"]} if self.type == FunctionCallOutput.type else {}
        yield {"type": f"response.{self.event}.done", "item_id": self.id, **name, self.field: self.text}


class FunctionCallOutput(CallOutput):
    """A call of a function."""

    event, type, field = "function_call_arguments", "function_call", "arguments"


class CustomCallOutput(CallOutput):
    """A call of a custom tool, whose input is a text."""

    event, type, field = "custom_tool_call_input", "custom_tool_call", "input"
