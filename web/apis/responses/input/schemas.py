"""The body of `POST /v1/responses`.

Fields outside these models are of three kinds, as in `web.generation.openai_format.schemas`: names that mean nothing to
cede (logged and ignored), hints that change nothing in the response (`HINTS`), and features that cede does not have
(`UNSUPPORTED`), which are refused unless they hold a neutral value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from runtime.common.units import MIB
from web.apis.responses.input.items import MAX_ITEMS, InputItem
from web.bodies.fields import (
    PARTS,
    TEXT,
    JsonSchema,
    Metadata,
    Name,
    ServiceTier,
    TemplateVariables,
    Text,
    TopLogprobs,
    text_or_parts,
    type_tag,
)
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.asked import CommonFields
from web.generation.passed_over import RESPONSES, names_in
from web.process.limits import MAX_INTEGER, MAX_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_GRAMMAR = 1 * MIB
"""Characters of a grammar."""

MAX_INCLUDE = 32
"""Entries of `include`."""


# --- tools --------------------------------------------------------------------------------------------------------


class FunctionTool(StrictModel):
    """A function, whose arguments are JSON."""

    type: Literal["function"]
    name: Annotated[Name, Field(min_length=1)]
    description: Text | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = None


class TextFormat(StrictModel):
    """Any text."""

    type: Literal["text"]


class GrammarFormat(StrictModel):
    """Text that a grammar produces."""

    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: Annotated[str, Field(max_length=MAX_GRAMMAR)]


class CustomTool(StrictModel):
    """A tool whose input is a text."""

    type: Literal["custom"]
    name: Annotated[Name, Field(min_length=1)]
    description: Text | None = None
    format: (
        Annotated[
            Annotated[TextFormat, Tag("<text>")] | Annotated[GrammarFormat, Tag("<grammar>")],
            Discriminator(type_tag, custom_error_type="custom_format", custom_error_message="custom_format"),
        ]
        | None
    ) = None


class OtherTool(StrictModel):
    """A tool that OpenAI's servers run themselves: it is named in the log, and not called."""

    type: Name


FUNCTION, CUSTOM, NAMESPACE, OTHER = "<function>", "<custom>", "<namespace>", "<other>"


def _tool_kind(value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    known = {"function": FUNCTION, "custom": CUSTOM, "namespace": NAMESPACE}
    return known.get(kind if isinstance(kind, str) else "", OTHER)


def _inner_tool_kind(value: object) -> str:
    kind = _tool_kind(value)
    return OTHER if kind == NAMESPACE else kind


class NamespaceTool(StrictModel):
    """Tools of the client's under a name that they share, such as those of one MCP server."""

    type: Literal["namespace"]
    name: Annotated[Name, Field(min_length=1)]
    description: Text | None = None
    tools: Annotated[
        list[
            Annotated[
                Annotated[FunctionTool, Tag(FUNCTION)]
                | Annotated[CustomTool, Tag(CUSTOM)]
                | Annotated[OtherTool, Tag(OTHER)],
                Discriminator(_inner_tool_kind),
            ]
        ],
        Field(max_length=MAX_TOOLS, fail_fast=True),
    ]


AnyTool = Annotated[
    Annotated[FunctionTool, Tag(FUNCTION)]
    | Annotated[CustomTool, Tag(CUSTOM)]
    | Annotated[NamespaceTool, Tag(NAMESPACE)]
    | Annotated[OtherTool, Tag(OTHER)],
    Discriminator(_tool_kind),
]


class NamedTool(StrictModel):
    """A tool in a choice of tools, or all of a namespace."""

    type: Name
    name: Name | None = None
    namespace: Name | None = None


class ToolChoice(StrictModel):
    """A choice of tools: one by its name, or several that are allowed."""

    type: Name
    name: Name | None = None
    namespace: Name | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Annotated[list[NamedTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None


def _text_or_object(model: type[StrictModel]) -> Callable[[object], str | None]:
    """Return what gives the tag of a field that is a string or an object; None for other values."""
    return lambda value: TEXT if isinstance(value, str) else OTHER if isinstance(value, dict | model) else None


AnyToolChoice = Annotated[
    Annotated[Literal["auto", "none", "required"], Tag(TEXT)] | Annotated[ToolChoice, Tag(OTHER)],
    Discriminator(_text_or_object(ToolChoice), custom_error_type="tool_choice", custom_error_message="tool_choice"),
]


# --- the answer's text, and thinking ------------------------------------------------------------------------------


class JsonFormat(StrictModel):
    """Any JSON object."""

    type: Literal["json_object"]


class SchemaFormat(StrictModel):
    """JSON of a schema."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(min_length=1, max_length=64)]
    schema_: Annotated[JsonSchema, Field(alias="schema")]
    description: Text | None = None
    strict: bool | None = None


class TextConfig(StrictModel):
    """Form of the answer's text."""

    format: (
        Annotated[
            Annotated[TextFormat, Tag("<text>")]
            | Annotated[JsonFormat, Tag("<json_object>")]
            | Annotated[SchemaFormat, Tag("<json_schema>")],
            Discriminator(type_tag, custom_error_type="response_format", custom_error_message="response_format"),
        ]
        | None
    ) = None
    verbosity: Literal["low", "medium", "high"] | None = None


class Reasoning(StrictModel):
    """Settings of thinking."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class StreamOptions(StrictModel):
    """Options of the stream; cede adds no noise to hide the lengths of its events."""

    include_obfuscation: bool | None = None


# --- the body -----------------------------------------------------------------------------------------------------

Input = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[InputItem], Field(max_length=MAX_ITEMS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="input", custom_error_message="input"),
]


class ConversationReference(StrictModel):
    """A stored conversation, as an object; its id alone will do."""

    id: Name


AnyConversation = Annotated[
    Annotated[Name, Tag(TEXT)] | Annotated[ConversationReference, Tag(OTHER)],
    Discriminator(
        _text_or_object(ConversationReference),
        custom_error_type="conversation",
        custom_error_message="conversation",
    ),
]


class PromptBody(StrictModel):
    """Fields that make the prompt: also the body of `POST /v1/responses/input_tokens`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    model: Name | None = None
    input: Input | None = None
    instructions: Text | None = None
    previous_response_id: Name | None = None
    conversation: AnyConversation | None = None
    tools: Annotated[list[AnyTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: AnyToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    text: TextConfig | None = None
    truncation: Literal["auto", "disabled"] | None = None
    chat_template_kwargs: TemplateVariables | None = None

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation that it goes on with."""
        given = self.conversation
        return given.id if isinstance(given, ConversationReference) else given


class ResponseBody(CommonFields, PromptBody):
    """The body of `POST /v1/responses`: OpenAI's parameters, then those of llama-server, of vLLM and of cede."""

    background: bool | None = None
    include: Annotated[list[Name], Field(max_length=MAX_INCLUDE, fail_fast=True)] | None = None
    max_output_tokens: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    max_tool_calls: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    metadata: Metadata | None = None
    prompt_cache_key: Name | None = None
    safety_identifier: Name | None = None
    service_tier: ServiceTier | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    top_logprobs: TopLogprobs | None = None
    user: Name | None = None


# Hints to the server, which change nothing in the response.
HINTS = names_in(RESPONSES)

# Features that cede does not have, each with the values (beside null) that ask for nothing.
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "prompt": (),
    "moderation": (),
    "context_management": ([],),
    "personality": (),
    "modalities": (["text"],),
    "n": (1,),
    "stop": ([],),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "min_tokens": (0,),
    "response_format": ({"type": "text"},),
    "stop_token_ids": ([],),
    "bad_words": ([],),
}
