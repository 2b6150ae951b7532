"""Tools in a chat's body: what may be called, and what was called."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from web.bodies.fields import TEXT, JsonSchema, Name, Text, text_or_type, type_tag
from web.bodies.strict_model import StrictModel
from web.process.limits import MAX_NAME, MAX_TOOLS

ToolName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]

# --- what may be called -----------------------------------------------------------------------------------------------


class FunctionDefinition(StrictModel):
    """A function: a tool whose arguments are JSON."""

    name: ToolName
    description: Text | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = None


class FunctionTool(StrictModel):
    """An entry of `tools` that is a function."""

    type: Literal["function"]
    function: FunctionDefinition


class TextFormat(StrictModel):
    """A custom tool's input may be any text."""

    type: Literal["text"]


class GrammarSource(StrictModel):
    """A grammar in source form."""

    definition: Text
    syntax: Literal["lark", "regex"]


class GrammarFormat(StrictModel):
    """A custom tool's input has to follow a grammar."""

    type: Literal["grammar"]
    grammar: GrammarSource


CustomFormat = Annotated[
    Annotated[TextFormat, Tag("<text>")] | Annotated[GrammarFormat, Tag("<grammar>")],
    Discriminator(type_tag, custom_error_type="custom_format", custom_error_message="custom_format"),
]


class CustomDefinition(StrictModel):
    """A custom tool: one whose input is a text."""

    name: ToolName
    description: Text | None = None
    format: CustomFormat | None = None


class CustomTool(StrictModel):
    """An entry of `tools` that is a custom tool."""

    type: Literal["custom"]
    custom: CustomDefinition


Tools = Annotated[
    list[
        Annotated[
            Annotated[FunctionTool, Tag("<function>")] | Annotated[CustomTool, Tag("<custom>")],
            Discriminator(type_tag, custom_error_type="tool", custom_error_message="tool"),
        ]
    ],
    Field(max_length=MAX_TOOLS, fail_fast=True),
]
Functions = Annotated[list[FunctionDefinition], Field(max_length=MAX_TOOLS, fail_fast=True)]

# --- which of them ----------------------------------------------------------------------------------------------------


class ToolReference(StrictModel):
    """The name of a tool."""

    name: ToolName


class FunctionChoice(StrictModel):
    """Function that is to be called."""

    type: Literal["function"]
    function: ToolReference


class CustomChoice(StrictModel):
    """Custom tool that is to be called."""

    type: Literal["custom"]
    custom: ToolReference


class AllowedTools(StrictModel):
    """Selection of the tools, and whether one has to be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[
        list[
            Annotated[
                Annotated[FunctionChoice, Tag("<function>")] | Annotated[CustomChoice, Tag("<custom>")],
                Discriminator(type_tag, custom_error_type="tool", custom_error_message="tool"),
            ]
        ],
        Field(min_length=1, max_length=MAX_TOOLS, fail_fast=True),
    ]


class AllowedToolsChoice(StrictModel):
    """No tools but these may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoiceField = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TEXT)]
    | Annotated[FunctionChoice, Tag("<function>")]
    | Annotated[CustomChoice, Tag("<custom>")]
    | Annotated[AllowedToolsChoice, Tag("<allowed_tools>")],
    Discriminator(text_or_type, custom_error_type="tool_choice", custom_error_message="tool_choice"),
]


def _text_or_reference(value: object) -> str | None:
    return TEXT if isinstance(value, str) else "<name>" if isinstance(value, dict) else None


FunctionCallField = Annotated[
    Annotated[Literal["none", "auto"], Tag(TEXT)] | Annotated[ToolReference, Tag("<name>")],
    Discriminator(_text_or_reference, custom_error_type="function_call", custom_error_message="function_call"),
]

# --- what was called --------------------------------------------------------------------------------------------------


class CalledFunction(StrictModel):
    """A call's function and arguments, as the model wrote them."""

    name: ToolName
    arguments: Text | None = None


class CalledCustom(StrictModel):
    """A call's custom tool and input."""

    name: ToolName
    input: Text


class MessageToolCall(StrictModel):
    """A call in an earlier turn."""

    id: Name | None = None
    type: Literal["function", "custom"] = "function"
    function: CalledFunction | None = None
    custom: CalledCustom | None = None
