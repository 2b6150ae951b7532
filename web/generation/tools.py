"""Tools as they are checked for every API."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from runtime.chat.conversation import ToolMode
from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.chat.conversation import Tool, ToolChoice

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""

CUSTOM_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The schema of a custom tool, whose input is a text."""


def check_tools(tools: Sequence[Tool], choice: ToolChoice, tools_param: str, choice_param: str) -> None:
    """Check that the tools of a request can be told apart, and that those which it chooses are among them.

    Args:
        tools: of the request.
        choice: which of them may be called, or have to.
        tools_param: the field that holds the tools, for errors.
        choice_param: the field that holds the choice.

    Raises:
        RequestError: two tools have the same name, or one has to be called, or may be, that is not there.
    """
    names = Counter(tool.name for tool in tools)
    if twice := [name for name, count in names.items() if count > 1]:
        raise RequestError(f"Two tools have the name {twice[0][:64]!r}; names must differ.", param=tools_param)
    if choice.mode is ToolMode.REQUIRED and not tools:
        raise RequestError(f"'{choice_param}' asks for a call, but there are no '{tools_param}'.", param=choice_param)
    for name in choice.names or ():
        if name not in names:
            raise RequestError(
                f"'{choice_param}' names {name[:64]!r}, which is not among the '{tools_param}'.", param=choice_param
            )
