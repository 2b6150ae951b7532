"""The items of an output as they grow, and what their events say.  Sequence numbers are added by `events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from web.responses.output.growing import GrowingArray, GrowingText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Json = dict[str, Any]

IN_PROGRESS = "in_progress"


class OutputItem(Protocol):
    """One item of an output.

    Attributes:
        id: of the item.
    """

    id: str

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""

    def value(self, status: str) -> Json:
        """Return the item as JSON, whose long parts are `SelfEncoding`."""

    def opening(self) -> Iterator[Json]:
        """Yield the events with which its content begins."""

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add a text, and return the event that tells it."""

    def closing(self) -> Iterator[Json]:
        """Yield the events with which its content ends."""


class MessageOutput:
    """A message of the model's, with one text; an `OutputItem`."""

    def __init__(self, id: str, *, logprobs: bool) -> None:
        self.id = id
        self._text = GrowingText()
        self._logprobs = GrowingArray()
        self._shows_logprobs = logprobs
        self._place = {"item_id": id, "content_index": 0}

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self._text) + len(self._logprobs)

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        content = [self._part()] if status != IN_PROGRESS else []
        return {"id": self.id, "type": "message", "role": "assistant", "status": status, "content": content}

    def opening(self) -> Iterator[Json]:
        """Yield the beginning of its one part; see `OutputItem`."""
        yield {"type": "response.content_part.added", **self._place, "part": self._part()}

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add a text; see `OutputItem`."""
        self._text.add(text)
        for logprob in logprobs:
            self._logprobs.add(logprob)
        return {"type": "response.output_text.delta", **self._place, "delta": text, "logprobs": list(logprobs)}

    def closing(self) -> Iterator[Json]:
        """Yield the whole text, and the whole part; see `OutputItem`."""
        yield {"type": "response.output_text.done", **self._place, "text": self._text, "logprobs": self._logprobs}
        yield {"type": "response.content_part.done", **self._place, "part": self._part()}

    def _part(self) -> Json:
        logprobs: object = self._logprobs if self._shows_logprobs else []
        return {"type": "output_text", "text": self._text, "annotations": [], "logprobs": logprobs}


class ReasoningOutput:
    """What the model thought; an `OutputItem`."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._text = GrowingText()
        self._place = {"item_id": id, "content_index": 0}

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self._text)

    def value(self, status: str) -> Json:
        """Return the item, whose thoughts are shown as they are: there is no summary; see `OutputItem`."""
        content = [self._part()] if status != IN_PROGRESS else []
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}

    def opening(self) -> Iterator[Json]:
        """Yield the beginning of its one part; see `OutputItem`."""
        yield {"type": "response.content_part.added", **self._place, "part": self._part()}

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add a text; see `OutputItem`."""
        self._text.add(text)
        return {"type": "response.reasoning_text.delta", **self._place, "delta": text}

    def closing(self) -> Iterator[Json]:
        """Yield the whole text, and the whole part; see `OutputItem`."""
        yield {"type": "response.reasoning_text.done", **self._place, "text": self._text}
        yield {"type": "response.content_part.done", **self._place, "part": self._part()}

    def _part(self) -> Json:
        return {"type": "reasoning_text", "text": self._text}


class FunctionCallOutput:
    """A call of a function; an `OutputItem`."""

    def __init__(self, id: str, call_id: str, called: Json) -> None:
        self.id = id
        self._call = {"call_id": call_id, **called}
        self._arguments = GrowingText()

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self._arguments)

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        arguments = {"arguments": self._arguments}
        return {"id": self.id, "type": "function_call", "status": status, **self._call, **arguments}

    def opening(self) -> Iterator[Json]:
        """Yield nothing: a call has no parts."""
        yield from ()

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add to the arguments; see `OutputItem`."""
        self._arguments.add(text)
        return {"type": "response.function_call_arguments.delta", "item_id": self.id, "delta": text}

    def closing(self) -> Iterator[Json]:
        """Yield the whole arguments; see `OutputItem`."""
        whole = {"name": self._call["name"], "arguments": self._arguments}
        yield {"type": "response.function_call_arguments.done", "item_id": self.id, **whole}


class CustomCallOutput:
    """A call of a custom tool, whose input is a text; an `OutputItem`."""

    def __init__(self, id: str, call_id: str, called: Json) -> None:
        self.id = id
        self._call = {"call_id": call_id, **called}
        self._input = GrowingText()

    def __len__(self) -> int:
        """Return the bytes that are held for it, about."""
        return len(self._input)

    def value(self, status: str) -> Json:
        """Return the item; see `OutputItem`."""
        return {"id": self.id, "type": "custom_tool_call", "status": status, **self._call, "input": self._input}

    def opening(self) -> Iterator[Json]:
        """Yield nothing: a call has no parts."""
        yield from ()

    def delta(self, text: str, logprobs: Sequence[Json] = ()) -> Json:
        """Add to the input; see `OutputItem`."""
        self._input.add(text)
        return {"type": "response.custom_tool_call_input.delta", "item_id": self.id, "delta": text}

    def closing(self) -> Iterator[Json]:
        """Yield the whole input; see `OutputItem`."""
        yield {"type": "response.custom_tool_call_input.done", "item_id": self.id, "input": self._input}
