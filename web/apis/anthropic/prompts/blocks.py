"""Content blocks of Anthropic's messages, as strict pydantic models.

Each union of blocks has a member for all types that this server does not read, which `conversation` refuses by name.
What a block holds beside its known fields, such as `cache_control` or `citations`, changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from web.bodies.fields import PARTS, TEXT, JsonObject, Name, Text, text_or_parts
from web.bodies.strict_model import StrictModel
from web.process.limits import MAX_PARTS

OTHER = "<other>"
"""The tag of a block whose type is not known here."""


class TextBlock(StrictModel):
    """A text."""

    type: Literal["text"]
    text: Text


class ThinkingBlock(StrictModel):
    """The model's thoughts; the signature is not looked at, for this server signs nothing."""

    type: Literal["thinking"]
    thinking: Text
    signature: Text | None = None


class RedactedThinkingBlock(StrictModel):
    """Thoughts of another server's model, in a form that only that server reads."""

    type: Literal["redacted_thinking"]
    data: Text | None = None


class ToolUseBlock(StrictModel):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: Name
    name: Name
    input: JsonObject


class OtherBlock(StrictModel):
    """A block of a type that is not known here, such as an image."""

    type: Name


def _type_tag(*known: str) -> Discriminator:
    """Make the rule by which a block's `type` chooses the member of a union: one of `known`, or `OTHER`."""

    def tag(block: object) -> str | None:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            return None
        return f"<{kind}>" if kind in known else OTHER

    return Discriminator(tag, custom_error_type="block", custom_error_message="block")


TextBlocks = Annotated[
    list[Annotated[Annotated[TextBlock, Tag("<text>")] | Annotated[OtherBlock, Tag(OTHER)], _type_tag("text")],],
    Field(max_length=MAX_PARTS, fail_fast=True),
]
TextContent = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[TextBlocks, Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="blocks", custom_error_message="blocks"),
]
"""A text, as a string or in blocks: the system prompt."""


class ToolReferenceBlock(StrictModel):
    """A tool that a search for tools found, by its name."""

    type: Literal["tool_reference"]
    tool_name: Name


ResultBlocks = Annotated[
    list[
        Annotated[
            Annotated[TextBlock, Tag("<text>")]
            | Annotated[ToolReferenceBlock, Tag("<tool_reference>")]
            | Annotated[OtherBlock, Tag(OTHER)],
            _type_tag("text", "tool_reference"),
        ]
    ],
    Field(max_length=MAX_PARTS, fail_fast=True),
]
ResultContent = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[ResultBlocks, Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="blocks", custom_error_message="blocks"),
]


class ToolResultBlock(StrictModel):
    """Result of a tool for a call."""

    type: Literal["tool_result"]
    tool_use_id: Name
    content: ResultContent | None = None
    is_error: bool | None = None


Block = Annotated[
    Annotated[TextBlock, Tag("<text>")]
    | Annotated[ThinkingBlock, Tag("<thinking>")]
    | Annotated[RedactedThinkingBlock, Tag("<redacted_thinking>")]
    | Annotated[ToolUseBlock, Tag("<tool_use>")]
    | Annotated[ToolResultBlock, Tag("<tool_result>")]
    | Annotated[OtherBlock, Tag(OTHER)],
    _type_tag("text", "thinking", "redacted_thinking", "tool_use", "tool_result"),
]
Content = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[Block], Field(max_length=MAX_PARTS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="blocks", custom_error_message="blocks"),
]
