"""The tools of a body, and the choice among them, in plain data."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from runtime.chat.conversation import Tool, ToolChoice, ToolMode
from runtime.common.log_text import literal
from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.apis.anthropic.prompts.schemas import Tool as ToolBody
    from web.apis.anthropic.prompts.schemas import ToolChoice as ToolChoiceBody

logger = logging.getLogger("cede.web")

CUSTOM = "custom"
"""The type of a tool of the client's own, which may also be left out."""

SERVER_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset", "advisor_")
"""How the types of tools begin that Anthropic's servers run themselves.  Without them a model has less to call, and
says nothing else; so they are left out."""

MODES = {"auto": ToolMode.AUTO, "any": ToolMode.REQUIRED, "tool": ToolMode.REQUIRED, "none": ToolMode.NONE}


def tools_of(bodies: Sequence[ToolBody]) -> list[Tool]:
    """Return the tools that the model may call.

    Raises:
        RequestError: one lacks its name or its schema, or is of a kind whose schema only Anthropic's models know.
    """
    return [_tool(body, f"tools.{index}") for index, body in enumerate(bodies) if not _is_run_by_server(body)]


def tool_choice_of(body: ToolChoiceBody | None) -> ToolChoice:
    """Return which of the tools may be called, or have to.

    Raises:
        RequestError: the choice of one tool does not name it.
    """
    if body is None:
        return ToolChoice()
    if body.type != "tool":
        return ToolChoice(MODES[body.type])
    if body.name is None:
        raise RequestError("Missing required parameter: 'tool_choice.name'.", param="tool_choice.name")
    return ToolChoice(MODES[body.type], (body.name,))


def _is_run_by_server(body: ToolBody) -> bool:
    """Return whether a tool is to be left out, and say so in the log."""
    if body.type is None or not body.type.startswith(SERVER_TOOLS):
        return False
    logger.info("ignored a tool that Anthropic's servers run: %s", literal(body.type))
    return True


def _tool(body: ToolBody, path: str) -> Tool:
    if body.type not in (None, CUSTOM):
        raise RequestError(
            f"'{path}' is of type {body.type[:64]!r}, which is not supported by this server.",
            param=f"{path}.type",
            code="unsupported_parameter",
        )
    for field in ("name", "input_schema"):
        if getattr(body, field) is None:
            raise RequestError(f"Missing required parameter: '{path}.{field}'.", param=f"{path}.{field}")
    assert body.name is not None
    assert body.input_schema is not None
    return Tool(body.name, _description(body), body.input_schema, strict=bool(body.strict))


def _description(body: ToolBody) -> str | None:
    """Return what the model is told of a tool, with the examples of its input."""
    if not body.input_examples:
        return body.description
    examples = "\n".join(json.dumps(example, ensure_ascii=False) for example in body.input_examples)
    return "\n\n".join(filter(None, [body.description, f"Examples of its input:\n{examples}"]))
