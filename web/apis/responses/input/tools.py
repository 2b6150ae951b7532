"""The tools of a body, and the choice among them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runtime.chat.conversation import Tool, ToolMode
from runtime.chat.conversation import ToolChoice as Choice
from runtime.common.log_text import literal
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from web.apis.responses.input.schemas import CustomTool, FunctionTool, GrammarFormat, NamespaceTool, OtherTool
from web.generation.prompts import CUSTOM_PARAMETERS, NO_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from web.apis.responses.input.schemas import AnyTool, AnyToolChoice, NamedTool, ToolChoice

logger = logging.getLogger("cede.web")

MAX_TYPES_LOGGED = 20
"""Types of tools that a log line names."""

SYNTAX = {"lark": GrammarKind.LARK, "regex": GrammarKind.REGEX}


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that the model may call: those that the client carries out.

    A tool in a namespace has one name for the model, of both; clients have the two apart.

    Attributes:
        tools: as the model sees them.
        apart: namespace and name of those that are in a namespace, by their name for the model.
    """

    tools: Sequence[Tool] = ()
    apart: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def shown(self, chosen: ToolChoice | NamedTool) -> list[str]:
        """Return the names, for the model, of a chosen tool or of all in a chosen namespace.

        Raises:
            RequestError: it has no name, or is of a kind that cede does not have.
        """
        if chosen.type not in ("function", "custom", "namespace"):
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
        if chosen.type == "namespace":
            return [shown for shown, (space, _) in self.apart.items() if space == chosen.name] or [chosen.name]
        if chosen.namespace is None and all(tool.name != chosen.name for tool in self.tools):
            # OpenAI's choice has no field for the namespace.
            return [shown for shown, (_, name) in self.apart.items() if name == chosen.name][:1] or [chosen.name]
        return [shown_name(chosen.namespace, chosen.name)]


def shown_name(namespace: str | None, name: str) -> str:
    """Return the name for the model of a tool that may be in a namespace: `mcp__files__read` of `mcp__files`."""
    return name if not namespace else f"{namespace.removesuffix('__')}__{name}"


def tools_of(tools: Sequence[AnyTool]) -> OfferedTools:
    """Return the tools that the model may call.

    OpenAI's own, such as `web_search`, are named in the log, for no such tool is here: the model does not see them.

    Raises:
        RequestError: two tools are called the same.
    """
    placed: list[tuple[NamespaceTool | None, FunctionTool | CustomTool | OtherTool]] = []
    for tool in tools:
        placed += [(tool, inner) for inner in tool.tools] if isinstance(tool, NamespaceTool) else [(None, tool)]
    if others := sorted({tool.type for _, tool in placed if isinstance(tool, OtherTool)}):
        logger.info("ignored tools that this server does not have: %s", literal(", ".join(others[:MAX_TYPES_LOGGED])))
    offered: list[Tool] = []
    apart: dict[str, tuple[str, str]] = {}
    told: set[str] = set()  # the namespaces whose description was said
    for space, tool in placed:
        if isinstance(tool, OtherTool):
            continue
        made = _tool(tool)
        if space is not None:
            shown = shown_name(space.name, made.name)
            apart[shown] = space.name, made.name
            about = [] if space.name in told or not space.description else [f"{space.name}: {space.description}"]
            told.add(space.name)
            made = replace(made, name=shown, description="\n\n".join(filter(None, [made.description, *about])))
        offered.append(made)
    return OfferedTools(offered, apart)


def _tool(tool: FunctionTool | CustomTool) -> Tool:
    if isinstance(tool, FunctionTool):
        return Tool(tool.name, tool.description, tool.parameters or NO_PARAMETERS, strict=bool(tool.strict))
    grammar = None
    if isinstance(tool.format, GrammarFormat):
        grammar = Grammar(SYNTAX[tool.format.syntax], tool.format.definition)
    return Tool(tool.name, tool.description, CUSTOM_PARAMETERS, custom=True, grammar=grammar)


def choice_of(asked: AnyToolChoice | None, offered: OfferedTools) -> Choice:
    """Return which of the tools may, or must, be called.

    Raises:
        RequestError: it names no tool, or one of a kind that cede does not have.
    """
    if asked is None or isinstance(asked, str):
        choice = Choice(ToolMode(asked or "auto"))
    elif asked.type == "allowed_tools":
        if not asked.tools:
            raise RequestError("'tool_choice.tools' must not be empty.", param="tool_choice.tools")
        names = [name for tool in asked.tools for name in offered.shown(tool)]
        choice = Choice(ToolMode(asked.mode or "auto"), tuple(dict.fromkeys(names)))
    else:
        choice = Choice(ToolMode.REQUIRED, tuple(offered.shown(asked)))
    return choice
