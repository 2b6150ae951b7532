"""An answer as it comes: server-sent events, what the chunks in them add up to, and what it took, in words.  Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from runtime.common.units import counted

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


def answer_line(answer: Answer) -> str:
    """Return what an answer took: its tokens, its speed, and how much of the prompt was known."""
    usage, timings = answer.usage, answer.timings
    said = [counted(usage.get("completion_tokens", 0), "token")]
    if thought := (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"):
        said.append(f"{thought} of them thought")
    if speed := timings.get("predicted_per_second"):
        said.append(f"{speed:.1f} tokens/s")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    said.append(f"prompt {counted(usage.get('prompt_tokens', 0), 'token')}, {cached} cached")
    if drafted := timings.get("draft_n"):
        said.append(f"{timings.get('draft_n_accepted', 0)} of {drafted} drafts accepted")
    if answer.cancelled:
        said.append(f"cut short: {answer.cancelled}")
    elif answer.finish_reason == "length":
        said.append("cut at the limit of tokens")
    return "; ".join(said)


def receipt_line(receipt: Json) -> str:
    """Return what a hang-up cost."""
    said = [f"hung up in {receipt['phase']}"]
    if receipt["computed_tokens"]:
        kept, wasted = receipt["kept_tokens"], receipt["wasted_tokens"]
        said.append(
            f"{counted(receipt['computed_tokens'], 'token')} computed, {kept} kept for a retry, {wasted} wasted"
        )
    else:
        said.append("nothing was computed")
    if receipt["slot_freed_at"] is not None:
        said.append(f"slot free after {1000 * (receipt['slot_freed_at'] - receipt['detected_at']):.0f} ms")
    return "; ".join(said)
