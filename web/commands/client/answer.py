"""An answer as it comes: server-sent events, and what the chunks in them add up to.  Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

DONE = "[DONE]"
_REASONING = ("reasoning_content", "reasoning")
"""The fields that a server may write its thoughts in (`serve --reasoning-field`)."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Parts of an answer that one chunk adds.

    Attributes:
        text: of the answer.
        reasoning: of what the model thinks before it answers.
    """

    text: str = ""
    reasoning: str = ""

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.text or self.reasoning)


class Answer:
    """An answer to a chat, so far.

    Attributes:
        id: of the request; empty until the server has said it.
        text: of the answer.
        reasoning: what the model thought.
        finish_reason: None until it has ended.
        cancelled: why the server cut it short; None where it did not.
        error: what went wrong while it was sent; None where nothing did.
        usage: as OpenAI's; empty until it has ended.
        timings: as llama-server's; empty until it has ended.
    """

    def __init__(self) -> None:
        self.id = ""
        self.text = ""
        self.reasoning = ""
        self.finish_reason: str | None = None
        self.cancelled: str | None = None
        self.error: str | None = None
        self.usage: Json = {}
        self.timings: Json = {}

    def take(self, chunk: Json) -> Delta:
        """Add a chunk of a stream, or an answer that was sent whole; returns what it has brought."""
        if "error" in chunk:
            self.error = error_message(chunk)
            return Delta()
        self.id = self.id or chunk.get("id", "")
        self.usage = chunk.get("usage") or self.usage
        self.timings = chunk.get("timings") or self.timings
        said = Delta()
        for choice in chunk.get("choices", ()):
            said = self._take_choice(choice)
        self.text += said.text
        self.reasoning += said.reasoning
        return said

    def _take_choice(self, choice: Json) -> Delta:
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.cancelled = (choice.get("cede") or {}).get("cancelled") or self.cancelled
        message = choice.get("delta") or choice.get("message") or {}
        reasoning = next((message[field] for field in _REASONING if message.get(field)), "")
        return Delta(message.get("content") or "", reasoning)


class EventParser:
    """Takes a stream of server-sent events apart.

    Attributes:
        done: whether the event that ends a whole stream has come.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.done = False

    def feed(self, data: bytes) -> list[Json]:
        """Return the events that are complete with these bytes."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        found = []
        for event in events:
            text = "\n".join(
                line.removeprefix("data:").strip() for line in event.decode().split("\n") if line.startswith("data:")
            )
            if text == DONE:
                self.done = True
            elif text:
                found.append(json.loads(text))
        return found


def error_message(body: Json) -> str:
    """The sentence in an error object; whatever shape it has."""
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    return str(error or body)
