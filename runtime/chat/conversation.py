"""Conversation that a client sends, in plain data that no API's wire format shows in.

Each API turns its own messages into a `Conversation`; the model's chat format turns that into a prompt, and the model's
output into `parts`.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.grammar.grammar import Grammar

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made in an earlier turn.

    Attributes:
        id: by which a tool's turn refers to it.
        name: of the tool.
        arguments: as the model wrote them; JSON for a function, any text for a custom tool.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    Attributes:
        role: whose; OpenAI's `developer` is `system` here.
        content: its text; None where it consists of calls alone.
        reasoning: what the model thought before it answered.
        tool_calls: what the model called.
        tool_call_id: of the call that a tool's turn answers.
        name: of the participant or the tool.
    """

    role: Role
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call.

    Attributes:
        name: of the tool.
        description: for the model.
        parameters: a JSON schema of the arguments.
        strict: the arguments must fit the schema.
        custom: the input is a text and not JSON; `parameters` then has a single string, `input`.
        grammar: what a custom tool's input must be; None for any text.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    custom: bool = False
    grammar: Grammar | None = None


class ToolMode(enum.StrEnum):
    """Mode of tool calls: whether the model may call tools, or has to."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Choice of the tools that the model may call.

    Attributes:
        mode: whether it may, or has to.
        names: of the tools that it may call; None for all.  One name and `REQUIRED` is OpenAI's named choice.
    """

    mode: ToolMode = ToolMode.AUTO
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReasoningChoice:
    """Choice of how the model thinks before it answers.

    Attributes:
        enabled: None for whatever the template does.
        effort: OpenAI's `reasoning_effort`, for templates that know it; others do as they do without.
        budget: tokens of thought at most; None for no bound.
        off_is_wish: a model that cannot but think answers all the same.
    """

    enabled: bool | None = None
    effort: str | None = None
    budget: int | None = None
    off_is_wish: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat that the model is to go on with.

    Attributes:
        turns: what was said.
        tools: what may be called.
        tool_choice: whether, and which of them.
        parallel_tool_calls: several calls may be made in one answer.
        reasoning: how to think.
        answer: what the text of the answer must be, behind what is thought, unless the answer is a call; None for any
            text.
        variables: further ones of the chat template, from the client.
        add_generation_prompt: end the prompt with the beginning of an answer.
        continue_final: the last turn is the beginning of the answer, and is gone on with.

    Raises:
        RequestError: two tools have the same name, the choice names one that there is not, or a call is required and
            none could be made.
    """

    turns: Sequence[Turn]
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    reasoning: ReasoningChoice = ReasoningChoice()
    answer: Grammar | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final: bool = False

    def __post_init__(self) -> None:
        """Check that the tools can be told apart, and that those which are chosen are among them."""
        count = Counter(tool.name for tool in self.tools)
        if twice := [name for name, times in count.items() if times > 1]:
            raise RequestError(f"'tools' has two of the name {twice[0][:64]!r}; names must differ.", param="tools")
        if missing := [name for name in self.tool_choice.names or () if name not in count]:
            raise RequestError(
                f"'tool_choice' names {missing[0][:64]!r}, and there is no such tool.", param="tool_choice"
            )
        if self.tool_choice.mode is ToolMode.REQUIRED and not self.callable_tools:
            raise RequestError("'tool_choice' requires a call, and there is no tool to call.", param="tool_choice")

    @property
    def callable_tools(self) -> list[Tool]:
        """The tools that the answer may call."""
        choice = self.tool_choice
        if choice.mode is ToolMode.NONE:
            return []
        return [tool for tool in self.tools if choice.names is None or tool.name in choice.names]
