"""The tools of a body, and the choice among them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runtime.chat.conversation import Tool, ToolMode
from runtime.chat.conversation import ToolChoice as Choice
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.log_text import literal
from web.generation.tools import CUSTOM_PARAMETERS, NO_PARAMETERS
from web.responses.input.schemas import CustomTool, FunctionTool, GrammarFormat, OtherTool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.responses.input.schemas import AnyTool, AnyToolChoice, NamedTool, ToolChoice

logger = logging.getLogger("cede.web")

MAX_TYPES_LOGGED = 20
"""Types of tools that a log line names."""

SYNTAX = {"lark": GrammarKind.LARK, "regex": GrammarKind.REGEX}


def tools_of(tools: Sequence[AnyTool]) -> list[Tool]:
    """Return the tools that the model may call: those that the client carries out.

    OpenAI's own, such as `web_search`, are named in the log, for no such tool is here: the model does not see them.
    """
    if others := sorted({tool.type for tool in tools if isinstance(tool, OtherTool)}):
        logger.info("ignored tools that this server does not have: %s", literal(", ".join(others[:MAX_TYPES_LOGGED])))
    return [_tool(tool) for tool in tools if not isinstance(tool, OtherTool)]


def _tool(tool: FunctionTool | CustomTool) -> Tool:
    if isinstance(tool, FunctionTool):
        return Tool(tool.name, tool.description, tool.parameters or NO_PARAMETERS, strict=bool(tool.strict))
    grammar = None
    if isinstance(tool.format, GrammarFormat):
        grammar = Grammar(SYNTAX[tool.format.syntax], tool.format.definition)
    return Tool(tool.name, tool.description, CUSTOM_PARAMETERS, custom=True, grammar=grammar)


def choice_of(asked: AnyToolChoice | None) -> Choice:
    """Return which of the tools may, or must, be called.

    Raises:
        RequestError: it names no tool, or one of a kind that cede does not have.
    """
    if asked is None or isinstance(asked, str):
        choice = Choice(ToolMode(asked or "auto"))
    elif asked.type == "allowed_tools":
        if not asked.tools:
            raise RequestError("'tool_choice.tools' must not be empty.", param="tool_choice.tools")
        choice = Choice(ToolMode(asked.mode or "auto"), tuple(_name(tool) for tool in asked.tools))
    else:
        choice = Choice(ToolMode.REQUIRED, (_name(asked),))
    return choice


def _name(chosen: ToolChoice | NamedTool) -> str:
    """Return the name of a chosen tool, which may be none of those that cede does not have."""
    if chosen.type not in ("function", "custom"):
        raise RequestError(
            f"Tools of type '{chosen.type}' are not supported by this server.",
            param="tool_choice.type",
            code="unsupported_parameter",
        )
    if chosen.name is None:
        raise RequestError(
            "Missing required parameter: 'tool_choice.name'.",
            param="tool_choice.name",
            code="missing_required_parameter",
        )
    return chosen.name
