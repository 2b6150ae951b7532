"""The items of a request's input: messages, calls, what tools returned, and thoughts; and how they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter

from web.bodies.fields import PARTS, TEXT, Name, Text, text_or_parts
from web.bodies.strict_model import StrictModel
from web.process.limits import MAX_PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

MAX_ITEMS = 4096
"""Items of an input, and of all that precede it: the chat template is a program that goes through them."""


class ContentPart(StrictModel):
    """A text in the content of an item.  Parts of other types, images and files, are refused: see `turns`."""

    type: Name
    text: Text | None = None
    refusal: Text | None = None


Content = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[ContentPart], Field(max_length=MAX_PARTS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="content", custom_error_message="content"),
]


class Item(StrictModel):
    """Fields that all items may have.

    Attributes:
        id: of an item that was stored; others get one.
        status: of an item that was an output; of no meaning for the prompt.
    """

    id: Name | None = None
    status: Name | None = None


class MessageItem(Item):
    """A message; `type` may be left out."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class FunctionCallItem(Item):
    """A call of a function, as the model made it."""

    type: Literal["function_call"]
    call_id: Name
    name: Name
    namespace: Name | None = None
    arguments: Text


class FunctionOutputItem(Item):
    """Result of a function."""

    type: Literal["function_call_output"]
    call_id: Name
    name: Name | None = None
    namespace: Name | None = None
    output: Content


class CustomCallItem(Item):
    """A call of a custom tool, as the model made it."""

    type: Literal["custom_tool_call"]
    call_id: Name
    name: Name
    namespace: Name | None = None
    input: Text


class CustomOutputItem(Item):
    """Result of a custom tool."""

    type: Literal["custom_tool_call_output"]
    call_id: Name
    name: Name | None = None
    namespace: Name | None = None
    output: Content


class ReasoningItem(Item):
    """The model's thoughts before its answer."""

    type: Literal["reasoning"]
    content: Annotated[list[ContentPart], Field(max_length=MAX_PARTS, fail_fast=True)] | None = None
    summary: Annotated[list[ContentPart], Field(max_length=MAX_PARTS, fail_fast=True)] | None = None
    encrypted_content: Text | None = None


class ReferenceItem(StrictModel):
    """An item of a stored response, by its id; `type` may be left out."""

    type: Literal["item_reference"] = "item_reference"
    id: Name


class OtherItem(Item):
    """An item that means nothing to cede, and is refused: see `turns`."""

    type: Name


TYPES = (
    "message function_call function_call_output custom_tool_call custom_tool_call_output reasoning item_reference"
).split()
OTHER = "<other>"


def _kind(value: object) -> str:
    """Return the tag of an item; messages and references need not say their type."""
    if not isinstance(value, dict):
        return f"<{getattr(value, 'type', OTHER)}>"
    match value.get("type"):
        case None:
            return "<message>" if "role" in value or "id" not in value else "<item_reference>"
        case str(kind) if kind in TYPES:
            return f"<{kind}>"
        case _:
            return OTHER


InputItem = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[FunctionCallItem, Tag("<function_call>")]
    | Annotated[FunctionOutputItem, Tag("<function_call_output>")]
    | Annotated[CustomCallItem, Tag("<custom_tool_call>")]
    | Annotated[CustomOutputItem, Tag("<custom_tool_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")]
    | Annotated[ReferenceItem, Tag("<item_reference>")]
    | Annotated[OtherItem, Tag(OTHER)],
    Discriminator(_kind),
]

AnyItem = (
    MessageItem
    | FunctionCallItem
    | FunctionOutputItem
    | CustomCallItem
    | CustomOutputItem
    | ReasoningItem
    | ReferenceItem
    | OtherItem
)

ITEMS: TypeAdapter[list[AnyItem]] = TypeAdapter(list[InputItem])
"""Validates items that are Python values, as those of stored responses."""


# --- as they are stored and listed: contents as lists of parts, each item with an id ----------------------------------

PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}


def stored_items(items: Sequence[AnyItem], key: str) -> list[Json]:
    """Return items as they are stored and listed.

    Args:
        items: with no references left among them.
        key: of which the ids are made of those that have none.
    """
    return [
        _stored_item(item, key, number) | ({} if item.id is None else {"id": item.id})
        for number, item in enumerate(items)
    ]


def _stored_item(item: AnyItem, key: str, number: int) -> Json:
    fields = {"id": f"{PREFIXES[item.type]}_{key}_i{number}"} | item.model_dump(mode="json", exclude_none=True)
    fields["type"] = item.type
    if isinstance(item, MessageItem):
        if isinstance(item.content, str):
            kind = {"type": "output_text", "annotations": []} if item.role == "assistant" else {"type": "input_text"}
            fields["content"] = [kind | {"text": item.content}]
        fields.setdefault("status", "completed")
    elif item.type == "reasoning":
        fields.setdefault("summary", [])
    else:
        fields.setdefault("status", "completed")
    return fields
