"""A model's way to converse: how a conversation becomes its prompt, and its output becomes parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.chat.parts import PlainParser
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.chat.conversation import Conversation, Turn
    from runtime.chat.parts import OutputParser
    from runtime.checkpoint.open import Checkpoint
    from runtime.grammar.grammar import Grammar

OPEN_END = "<<the model continues here>>"
"""Marks a place in a rendered conversation, which is cut off there."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation as the model is to see it, and how its answer is to be read.

    Attributes:
        text: of the prompt, special tokens spelled out; to be encoded without further ones.
        parser: makes a fresh parser for each generation.
        grammar: what the answer must be, by the tools that it may or has to call; None for any text.
        visible: spellings of special tokens that the parser has to see; all others add nothing to the text.
    """

    text: str
    parser: Callable[[], OutputParser] = PlainParser
    grammar: Grammar | None = None
    visible: frozenset[str] = frozenset()


class Chat:
    """How one model converses.

    Args:
        template: the checkpoint's.

    Attributes:
        template: the same.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Chat | None:
        """Load how a checkpoint converses.

        Returns:
            None where it has no template, as a base model.

        Raises:
            CheckpointError: the template is broken, or cannot be read.
        """
        template = ChatTemplate.load(checkpoint)
        return None if template is None else cls(template)

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Render a conversation.

        Raises:
            RequestError: the template refuses it, or it asks for what this model's format cannot do.
        """
        if conversation.tools:
            raise RequestError("Tools are not supported by this server.", param="tools", code="unsupported_parameter")
        return ChatPrompt(self._render(conversation))

    def _render(self, conversation: Conversation) -> str:
        messages = [template_message(turn) for turn in conversation.turns]
        if not conversation.continue_final:
            return self.template.render(
                messages, add_generation_prompt=conversation.add_generation_prompt, **conversation.variables
            )
        messages[-1]["content"] = (messages[-1].get("content") or "") + OPEN_END
        rendered = self.template.render(messages, add_generation_prompt=False, **conversation.variables)
        shown, mark, _ = rendered.rpartition(OPEN_END)
        if not mark:
            raise RequestError("The chat template hides the last message.", param="continue_final_message")
        return shown


def template_message(turn: Turn) -> dict[str, Any]:
    """Return a turn as chat templates expect a message."""
    fields = {"role": turn.role, "content": turn.content, "name": turn.name, "tool_call_id": turn.tool_call_id}
    return {name: value for name, value in fields.items() if value is not None}
