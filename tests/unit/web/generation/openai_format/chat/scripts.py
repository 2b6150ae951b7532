"""Answers that a test dictates part by part, to a chat that takes any conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from runtime.chat.chat import Chat, ChatPrompt
from runtime.chat.conversation import Conversation
from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from runtime.chat.template import ChatTemplate
from runtime.grammar.grammar import Grammar, GrammarKind
from tests.fakes.engine import TEMPLATE, model
from web.apis.openai.chat import parse_chat
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions
from web.generation.openai_format.requests import Settings

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
SHELL = {"type": "custom", "custom": {"name": "shell"}}


class ScriptedParser:
    """Reads `think:…`, `call:NAME`, `args:…` and `end` as what they say, and anything else as text."""

    def __init__(self) -> None:
        self._call = -1

    def push(self, text: str) -> Sequence[Part]:
        """Return the part that a text is."""
        kind, _, rest = text.partition(":")
        match kind:
            case "think":
                return [ReasoningPart(rest)]
            case "call":
                self._call += 1
                return [CallStart(self._call, rest)]
            case "args":
                return [CallArguments(self._call, rest)]
            case "end":
                return [CallEnd(self._call)]
            case _:
                return [TextPart(text)] if text else []

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return nothing, for nothing is held back."""
        return []


class ScriptedChat(Chat):
    """Remembers the conversation that it was asked for last."""

    def __init__(self) -> None:
        super().__init__(ChatTemplate(TEMPLATE))
        self.asked: Conversation | None = None

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Return a prompt of no meaning."""
        self.asked = conversation
        return ChatPrompt("hi", ScriptedParser, Grammar(GrammarKind.REGEX, ".*"))


def scripted(settings: Settings | None = None, **fields: Any) -> Asked[ResponseOptions]:  # noqa: ANN401
    """Return the job of a chat body with these fields, beside one message unless given."""
    body = {"messages": [{"role": "user", "content": "hi"}]} | fields
    return parse_chat(json.dumps(body).encode(), model(chat=ScriptedChat()), settings=settings)


def conversation(**fields: Any) -> Conversation:  # noqa: ANN401
    """Return what a chat body with these fields asks of the model."""
    chat = ScriptedChat()
    body = {"messages": [{"role": "user", "content": "hi"}]} | fields
    parse_chat(json.dumps(body).encode(), model(chat=chat))
    assert chat.asked is not None
    return chat.asked
