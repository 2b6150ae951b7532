"""The items of an input as they are stored and listed: contents as lists of parts, each item with an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from web.apis.responses.input.items import MessageItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.apis.responses.input.items import AnyItem

Json = dict[str, Any]

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
