"""A conversation: who has said what, and how answers are sampled.  Pure."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
Setting = int | float | str

SETTINGS: dict[str, Callable[[str], Setting]] = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "max_tokens": int,
    "seed": int,
    "presence_penalty": float,
    "frequency_penalty": float,
    "repetition_penalty": float,
    "reasoning_effort": str,
}
"""Fields of a request that can be set, and what reads their values; whether one is in its range the server says."""

USER, ASSISTANT = "user", "assistant"


class ChatError(Exception):
    """Error of what was typed and cannot be done; the message says why."""


@dataclass(frozen=True, slots=True)
class Message:
    """Message that somebody has said.

    Attributes:
        role: `user` or `assistant`.
        content: the text.
        reasoning: what an assistant thought before; it is kept, and not sent again.
    """

    role: str
    content: str
    reasoning: str = ""


class Conversation:
    """Messages and settings; the last message is the user's as long as it has no answer.

    Attributes:
        system: what the model is told before all else; None for nothing.
        messages: in their order.
        settings: that were set, by the names of a request's fields.
    """

    def __init__(self, system: str | None = None, settings: dict[str, Setting] | None = None) -> None:
        self.system = system
        self.messages: list[Message] = []
        self.settings = settings or {}
        self._session = f"chat-{secrets.token_hex(8)}"  # whose KV gives way to its own next text first

    def ask(self, text: str) -> None:
        """Add a question.  One that got no answer gives way to it."""
        if self.messages and self.messages[-1].role == USER:
            self.messages.pop()
        self.messages.append(Message(USER, text))

    def answered(self, text: str, reasoning: str) -> None:
        """Add what there is of an answer; one without a text is none."""
        if text:
            self.messages.append(Message(ASSISTANT, text, reasoning))

    def retry(self) -> None:
        """Take the last answer back, so that its question waits for another.  Raises ChatError."""
        if not self.messages:
            raise ChatError("nothing was asked yet")
        if self.messages[-1].role == ASSISTANT:
            self.messages.pop()

    def undo(self) -> str:
        """Take the last question and its answer back; returns the question.  Raises ChatError."""
        self.retry()
        return self.messages.pop().content

    def clear(self) -> None:
        """Forget what was said; what was set stays."""
        self.messages.clear()

    def set(self, name: str, value: str) -> None:
        """Set a field of requests to what is written in `value`; nothing for the server's default.

        Raises:
            ChatError: there is no such field, or that is no value of its kind.
        """
        if name not in SETTINGS:
            raise ChatError(f"there is no {name} to set, but {', '.join(SETTINGS)}")
        if not value:
            self.settings.pop(name, None)
            return
        try:
            self.settings[name] = SETTINGS[name](value)
        except ValueError:
            raise ChatError(f"{name} is a number, and {value!r} is none of its kind") from None

    def body(self) -> Json:
        """The body of the request that continues it, as a stream with figures at the end."""
        system = [] if not self.system else [{"role": "system", "content": self.system}]
        messages = [{"role": message.role, "content": message.content} for message in self.messages]
        stream = {"stream": True, "stream_options": {"include_usage": True}, "prompt_cache_key": self._session}
        return {"messages": system + messages} | stream | self.settings

    # --- in a file ----------------------------------------------------------------------------------------------------

    def dumps(self) -> str:
        """The conversation as a file has it, in JSON."""
        about = {"system": self.system, "settings": self.settings}
        return json.dumps(about | {"messages": [asdict(message) for message in self.messages]}, indent=2) + "\n"

    @classmethod
    def loads(cls, text: str) -> Conversation:
        """Read what `dumps` has written.  Raises ChatError."""
        try:
            content = json.loads(text)
            conversation = cls(content["system"])
            for name, value in content["settings"].items():
                conversation.set(name, str(value))
            conversation.messages = [_message(each) for each in content["messages"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ChatError(f"it is not a conversation that /save has written ({error!r})") from None
        return conversation


def _message(content: Json) -> Message:
    """A message of a file.  Raises ValueError, KeyError or TypeError."""
    message = Message(content["role"], content["content"], content.get("reasoning", ""))
    if message.role not in (USER, ASSISTANT) or not isinstance(message.content, str):
        raise ValueError(f"no message: {content!r}"[:200])
    return message
