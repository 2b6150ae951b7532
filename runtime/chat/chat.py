"""A model's way to converse: how a conversation becomes its prompt, and its output becomes parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.chat.conversation import ToolMode
from runtime.chat.formats.choose import ToolFormatName, find_format, make_format
from runtime.chat.formats.format import Calls
from runtime.chat.formats.generic import described, generic_messages
from runtime.chat.formats.harmony import THOUGHT, Harmony
from runtime.chat.formats.hermes import Hermes
from runtime.chat.formats.listed import Listed
from runtime.chat.lark import Lark, one_of
from runtime.chat.messages import custom_names, template_messages, tool_schema, with_tools_in_system
from runtime.chat.parts import PlainParser
from runtime.chat.reading.json_strings import CustomInputs
from runtime.chat.reading.source import ReadingParser
from runtime.chat.reading.text import plain_text
from runtime.chat.reasoning import closed_if_off, reasoning_variables, thought_of
from runtime.chat.template import ChatTemplate
from runtime.chat.traits import traits_of
from runtime.chat.turns import arranged
from runtime.errors import CheckpointError, RequestError
from runtime.grammar.closed import closed_objects
from runtime.grammar.grammar import Grammar, GrammarKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runtime.chat.conversation import Conversation, Tool
    from runtime.chat.messages import Message
    from runtime.chat.parts import OutputParser
    from runtime.chat.reading.source import Reading, Source
    from runtime.checkpoint.open import Checkpoint
    from runtime.text.tokenizer import Tokenizer

OPEN_END = "<<the model continues here>>"
"""Marks a place in a rendered conversation, which is cut off there."""

DESCRIBED = (ToolFormatName.GENERIC, ToolFormatName.HERMES)
"""The formats that tools can be described in where the template shows none."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation as the model is to see it, and how its answer is to be read.

    Attributes:
        text: of the prompt, special tokens spelled out; to be encoded without further ones.
        parser: makes a fresh parser for each generation.
        grammar: what the answer must be, by the conversation's `answer` and by the tools that it may or has to call;
            None for any text.
        visible: spellings of special tokens that the parser has to see; all others add nothing to the text.
    """

    text: str
    parser: Callable[[], OutputParser] = PlainParser
    grammar: Grammar | None = None
    visible: frozenset[str] = frozenset()

    def visible_ids(self, tokenizer: Tokenizer) -> frozenset[int]:
        """Return the ids of the special tokens that the parser has to see."""
        found = map(tokenizer.token_id, self.visible)
        return frozenset(token_id for token_id in found if token_id is not None)


class Chat:
    """Conversation with one model.

    Args:
        template: the checkpoint's.
        added_tokens: the ids of the tokenizer's added tokens, by their spelling.
        tool_format: how calls are written; None for what the templates show.
        response_template: how transformers is to read answers, which shows the format, too.
        open_objects: a tool's objects may have properties that their schema does not list.

    Attributes:
        template: the same.
        tool_format: the name of the format of calls.

    Raises:
        CheckpointError: the template shows no tools, and `tool_format` is one that needs that.
    """

    def __init__(
        self,
        template: ChatTemplate,
        added_tokens: Mapping[str, int] | None = None,
        tool_format: ToolFormatName | None = None,
        response_template: Mapping[str, object] | None = None,
        *,
        open_objects: bool = False,
    ) -> None:
        self._open_objects = open_objects
        self.template = template
        self._added_tokens = dict(added_tokens or {})
        self._traits = traits_of(template)
        shown = find_format(template.source, response_template) if self._traits.shows_tools else None
        self.tool_format = tool_format or shown or ToolFormatName.GENERIC
        if not self._traits.shows_tools and self.tool_format not in DESCRIBED:
            raise CheckpointError(
                f"the chat template shows no tools, so --tool-format cannot be {self.tool_format}, but generic"
            )
        self._format = make_format(self.tool_format, template.source)
        self._thought = thought_of(template, THOUGHT if isinstance(self._format, Harmony) else None)

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        added_tokens: Mapping[str, int] | None = None,
        tool_format: ToolFormatName | None = None,
        *,
        template: Path | None = None,
        open_objects: bool = False,
    ) -> Chat | None:
        """Load how a checkpoint converses.

        Args:
            checkpoint: the model's files.
            added_tokens: as of the class.
            tool_format: likewise.
            template: a file with a template, in place of the checkpoint's.
            open_objects: as of the class.

        Returns:
            None where there is no template, as for a base model.

        Raises:
            CheckpointError: the template is broken, or cannot be read, or does not fit `tool_format`.
        """
        found = ChatTemplate.load(checkpoint, template)
        if found is None:
            return None
        # Of another template the checkpoint's own says nothing.
        response_template = None if template else checkpoint.response_template()
        return cls(found, added_tokens, tool_format, response_template, open_objects=open_objects)

    @property
    def reasons(self) -> bool:
        """Return whether the model thinks before it answers."""
        return self._thought is not None

    def prompt(self, conversation: Conversation) -> ChatPrompt:
        """Render a conversation.

        Raises:
            RequestError: the template refuses it, or it asks for what this model's format cannot do.
        """
        turns = arranged(conversation.turns, self._traits, continue_final=conversation.continue_final)
        conversation = replace(conversation, turns=turns)
        calls = asked_calls(conversation)
        if calls.bound and not self._open_objects:
            calls = replace(calls, tools=tuple(map(_closed, calls.tools)))
        text = closed_if_off(self._render(conversation), conversation, self._thought)
        begun = self._begun(text, conversation)
        if not calls.tools and self._thought is None:
            return ChatPrompt(text, grammar=conversation.answer)
        formatted = bool(calls.tools) or isinstance(self._format, Harmony)

        def answer(source: Source) -> Reading[None]:
            return self._format.read(source, calls) if formatted else plain_text(source)

        def read(source: Source) -> Reading[None]:
            if self._thought is not None and not self._thought.framed:
                call = self._format.markers[0] if calls.tools else ""
                yield from self._thought.read(source, answer, call, begun=begun)
            yield from answer(source)

        custom = custom_names(conversation)
        thought = self._thought.markers if self._thought else ()
        return ChatPrompt(
            text,
            parser=lambda: CustomInputs(ReadingParser(read), custom) if custom else ReadingParser(read),
            grammar=self._grammar(conversation, calls, begun=begun),
            visible=frozenset((*thought, *(self._format.markers if formatted else ()))),
        )

    def _begun(self, text: str, conversation: Conversation) -> bool:
        """Return whether the answer begins within what the model thinks."""
        if self._thought is None or not (conversation.add_generation_prompt or conversation.continue_final):
            return False
        if conversation.continue_final:
            last = conversation.turns[-1].content or ""
            return last.rfind(self._thought.opening) > last.rfind(self._thought.closing)
        return self._thought.begun(text)

    def _grammar(self, conversation: Conversation, calls: Calls, *, begun: bool) -> Grammar | None:
        # Where a call has to be made there is no text that could be anything.
        wanted = None if calls.required else conversation.answer
        budget = self._thought.budget(conversation.reasoning.budget, begun=begun) if self._thought else None
        if not calls.bound and wanted is None:
            return None if budget is None else Grammar(GrammarKind.ANY, "", budget=budget)
        lark = Lark(self._added_tokens)
        return replace(lark.grammar(self._answer(lark, calls, wanted, begun=begun)), budget=budget)

    def _answer(self, lark: Lark, calls: Calls, wanted: Grammar | None, *, begun: bool) -> str:
        """Return an expression for an answer that thinks, and then calls or is what is wanted."""
        if isinstance(self._format, Harmony):
            held = replace(calls, bound=calls.bound or (wanted is not None and bool(calls.tools)))
            return self._format.saying(lark, held, None if wanted is None else lark.embedded(wanted))
        thought = self._thought.grammar(lark, begun=begun) if self._thought else ""
        if wanted is not None:
            # A call that is no text is told from it by its beginning, so that each has to be one or the other.
            call = [self._format.answer(lark, replace(calls, required=True))] if calls.tools else []
            answer = f"{lark.spaces()} {one_of([lark.embedded(wanted), *call])}"
        else:
            answer = self._format.answer(lark, calls)
        return f"{thought} {answer}".strip()

    def _render(self, conversation: Conversation) -> str:
        variables = {**reasoning_variables(conversation.reasoning, self._thought), **conversation.variables}
        messages = self._messages(conversation, variables)
        if not conversation.continue_final:
            return self.template.render(messages, add_generation_prompt=conversation.add_generation_prompt, **variables)
        messages[-1]["content"] = (messages[-1].get("content") or "") + OPEN_END
        rendered = self.template.render(messages, add_generation_prompt=False, **variables)
        shown, mark, _ = rendered.rpartition(OPEN_END)
        if not mark:
            raise RequestError("The chat template hides the last message.", param="continue_final_message")
        return shown

    def _messages(self, conversation: Conversation, variables: dict[str, object]) -> list[Message]:
        """Return the messages for the template, and give it the tools in the way that it takes them."""
        tools = () if conversation.tool_choice.mode is ToolMode.NONE else conversation.tools
        spoken = any(turn.tool_calls or turn.role == "tool" for turn in conversation.turns)
        if spoken and (self._traits.calls is None or self.tool_format is ToolFormatName.GENERIC):
            write = (Listed if self._traits.tools_in_system else Hermes).write
            messages = generic_messages(conversation, write, self._traits.reasoning_field)
        else:
            messages = template_messages(conversation, self._traits)
        if not tools:
            return messages
        if self.tool_format is ToolFormatName.GENERIC or not self._traits.shows_tools:
            return described(messages, tools, system=self._traits.system)
        if not self._traits.tools:
            return with_tools_in_system(messages, tools)
        variables["tools"] = [tool_schema(tool) for tool in tools]
        return messages


def _closed(tool: Tool) -> Tool:
    return replace(tool, parameters=closed_objects(tool.parameters))


def asked_calls(conversation: Conversation) -> Calls:
    """Return which calls an answer may make, and whether they have to be held to a grammar."""
    choice = conversation.tool_choice
    tools = tuple(conversation.callable_tools)
    required = choice.mode is ToolMode.REQUIRED
    # OpenAI: one call, where the client says which.
    parallel = conversation.parallel_tool_calls and not (required and choice.names is not None and len(tools) == 1)
    held = required or choice.names is not None or any(tool.strict or tool.grammar for tool in tools)
    bound = bool(tools) and (held or not conversation.parallel_tool_calls)
    return Calls(tools, required, parallel, bound)
