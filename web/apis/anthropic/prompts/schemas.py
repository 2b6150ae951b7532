"""The bodies of `POST /v1/messages` and `POST /v1/messages/count_tokens`, as strict pydantic models.

Fields outside these models are of three kinds: names that mean nothing to cede (logged and ignored), hints that change
nothing in the answer (`HINTS`, ignored), and features that cede does not have (`UNSUPPORTED`), which are refused unless
they hold a neutral value.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from web.apis.anthropic.prompts.blocks import Content, TextContent
from web.bodies.fields import JsonObject, JsonSchema, Name, StopString, Text
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.asked import CommonFields
from web.generation.passed_over import ANTHROPIC, names_in
from web.process.limits import MAX_INTEGER, MAX_MESSAGES, MAX_PARTS, MAX_STOP_STRINGS, MAX_TOOLS


class Message(StrictModel):
    """One turn of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content


class Tool(StrictModel):
    """A tool: one of the client's, with a schema of its input, or one that Anthropic's own servers would run."""

    name: Name | None = None
    type: Name | None = None
    description: Text | None = None
    input_schema: JsonSchema | None = None
    strict: bool | None = None
    input_examples: Annotated[list[JsonObject], Field(max_length=MAX_PARTS, fail_fast=True)] | None = None


class ToolChoice(StrictModel):
    """Choice of tools: whether the model may call them, or has to."""

    type: Literal["auto", "any", "tool", "none"]
    name: Name | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(StrictModel):
    """Thinking of the model before it answers."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(StrictModel):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    schema_: JsonSchema = Field(alias="schema")


class OutputConfig(StrictModel):
    """Form of the answer.  The effort is a wish, for models whose template knows one."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class PromptBody(StrictModel):
    """Fields that make the prompt, in either body."""

    model: Name
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    system: TextContent | None = None
    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None


class CountBody(PromptBody):
    """The body of `POST /v1/messages/count_tokens`."""


class MessagesBody(CommonFields, PromptBody):
    """The body of `POST /v1/messages`: Anthropic's parameters, then those of cede."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    max_tokens: Annotated[int, Field(ge=0, le=MAX_INTEGER)]
    stop_sequences: Annotated[list[StopString], Field(max_length=MAX_STOP_STRINGS, fail_fast=True)] | None = None
    stream: bool | None = None


# Hints to the server, which change nothing in the answer.
HINTS = names_in(ANTHROPIC) | {"cache_control"}

# Features that cede does not have, each with the values (beside null) that ask for nothing.
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "container": (),
    "thread": (),
    "mcp_servers": ([],),
}
