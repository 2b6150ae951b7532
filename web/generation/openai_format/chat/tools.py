"""The tools of a chat's body as those of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.conversation import Tool, ToolChoice, ToolMode
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from web.generation.openai_format.chat.tool_schemas import (
    AllowedToolsChoice,
    CustomChoice,
    FunctionChoice,
    FunctionTool,
    GrammarFormat,
    ToolReference,
)
from web.generation.prompts import CUSTOM_PARAMETERS, NO_PARAMETERS

if TYPE_CHECKING:
    from web.generation.openai_format.chat.schema import ChatBody
    from web.generation.openai_format.chat.tool_schemas import CustomDefinition, FunctionDefinition


LEGACY_PARAMS = {"tools": "functions", "tool_choice": "function_call"}
"""What is called otherwise in a body that speaks of functions."""


def tools_of(body: ChatBody) -> tuple[list[Tool], ToolChoice]:
    """Return what may be called, and whether; OpenAI's older `functions` are tools, too.

    Raises:
        RequestError: the body has both.
    """
    legacy = is_legacy(body)
    if legacy and body.tools:
        raise RequestError("'functions' and 'tools' exclude each other; use 'tools'.", param="functions")
    if legacy:
        tools, choice = [_function(function) for function in body.functions or ()], _legacy_choice(body)
    else:
        tools = [
            _function(tool.function) if isinstance(tool, FunctionTool) else _custom(tool.custom)
            for tool in body.tools or ()
        ]
        choice = _choice(body)
    return tools, choice


def is_legacy(body: ChatBody) -> bool:
    """Return whether a body speaks of functions, and is to be answered so, as it was before there were tools."""
    return bool(body.functions) or (body.function_call is not None and not body.tools)


def _function(function: FunctionDefinition) -> Tool:
    return Tool(
        name=function.name,
        description=function.description,
        parameters=function.parameters or NO_PARAMETERS,
        strict=bool(function.strict),
    )


def _custom(custom: CustomDefinition) -> Tool:
    grammar = None
    if isinstance(custom.format, GrammarFormat):
        source = custom.format.grammar
        kind = GrammarKind.LARK if source.syntax == "lark" else GrammarKind.REGEX
        grammar = Grammar(kind, source.definition)
    return Tool(custom.name, custom.description, CUSTOM_PARAMETERS, custom=True, grammar=grammar)


def _choice(body: ChatBody) -> ToolChoice:
    match body.tool_choice:
        case None:
            return ToolChoice()
        case str(mode):
            return ToolChoice(ToolMode(mode))
        case FunctionChoice() | CustomChoice() as named:
            return ToolChoice(ToolMode.REQUIRED, (_name(named),))
        case AllowedToolsChoice(allowed_tools=allowed):
            return ToolChoice(ToolMode(allowed.mode), tuple(map(_name, allowed.tools)))


def _name(choice: FunctionChoice | CustomChoice) -> str:
    return (choice.function if isinstance(choice, FunctionChoice) else choice.custom).name


def _legacy_choice(body: ChatBody) -> ToolChoice:
    call = body.function_call
    if isinstance(call, ToolReference):
        return ToolChoice(ToolMode.REQUIRED, (call.name,))
    return ToolChoice() if call is None else ToolChoice(ToolMode(call))
