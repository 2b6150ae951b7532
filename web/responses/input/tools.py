"""The tools of a body, and the choice among them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from runtime.chat.conversation import Tool, ToolMode
from runtime.chat.conversation import ToolChoice as Choice
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.log_text import literal
from web.responses.input.schemas import CustomTool, FunctionTool, GrammarFormat, OtherTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from web.responses.input.schemas import AnyTool, AnyToolChoice, NamedTool

logger = logging.getLogger("cede.web")

MAX_TYPES_LOGGED = 20
"""Types of tools that a log line names."""

INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""The parameters of a custom tool, for models that write JSON only."""

SYNTAX = {"lark": GrammarKind.LARK, "regex": GrammarKind.REGEX}


def tools_of(tools: Sequence[AnyTool]) -> list[Tool]:
    """Return the tools that the model may call: those that the client carries out.

    OpenAI's own, such as `web_search`, are named in the log, for no such tool is here: the model does not see them.

    Raises:
        RequestError: two have the same name.
    """
    if others := sorted({tool.type for tool in tools if isinstance(tool, OtherTool)}):
        logger.info("ignored tools that this server does not have: %s", literal(", ".join(others[:MAX_TYPES_LOGGED])))
    ours = [_tool(tool) for tool in tools if not isinstance(tool, OtherTool)]
    names = [tool.name for tool in ours]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RequestError(f"There are several tools of the name '{twice}'.", param="tools")
    return ours


def _tool(tool: FunctionTool | CustomTool) -> Tool:
    if isinstance(tool, FunctionTool):
        return Tool(tool.name, tool.description, tool.parameters or {}, strict=bool(tool.strict))
    grammar = None
    if isinstance(tool.format, GrammarFormat):
        grammar = Grammar(SYNTAX[tool.format.syntax], tool.format.definition)
    return Tool(tool.name, tool.description, INPUT, custom=True, grammar=grammar)


def choice_of(choice: AnyToolChoice | None, tools: Sequence[Tool]) -> Choice:
    """Return which of the tools may, or must, be called.

    Raises:
        RequestError: the choice names a tool that is not among them, or a tool must be called and there is none.
    """
    if choice is None or isinstance(choice, str):
        mode = ToolMode(choice or "auto")
        if mode is ToolMode.REQUIRED and not tools:
            raise RequestError("'tool_choice' requires a tool, and there is none.", param="tool_choice")
        return Choice(mode)
    if choice.type == "allowed_tools":
        named = _names(choice.tools or [], tools, "tool_choice.tools")
        return Choice(ToolMode(choice.mode or "auto"), tuple(named))
    return Choice(ToolMode.REQUIRED, tuple(_names([choice], tools, "tool_choice")))


def _names(chosen: Iterable[NamedTool | Any], tools: Sequence[Tool], param: str) -> list[str]:
    """Return the names of the chosen tools; of those that cede does not have none may be chosen."""
    known = {tool.name: tool for tool in tools}
    names = []
    for one in chosen:
        tool = known.get(one.name or "")
        if one.type not in ("function", "custom"):
            raise RequestError(
                f"Tools of type '{one.type}' are not supported by this server.",
                param=f"{param}.type",
                code="unsupported_parameter",
            )
        if tool is None or tool.custom is not (one.type == "custom"):
            raise RequestError(f"'{param}' names a {one.type} tool that is not in 'tools'.", param=param)
        names.append(tool.name)
    if not names:
        raise RequestError(f"'{param}' must not be empty.", param=param)
    return names
