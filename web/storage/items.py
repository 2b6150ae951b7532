"""Items on their way into the store and out of it: what is stored is sent as it is, and never parsed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from web.bodies.json_encoding import EncodedJson
from web.bodies.responses import encode_json
from web.bodies.query import page_object
from web.storage.objects import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from web.bodies.json_encoding import JsonObject
    from web.storage.objects import ItemPage


async def encoded(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return items as they are stored; others run in between.

    Args:
        items: each with an id; their long parts may be `SelfEncoding`.
    """
    return [Item(item["id"], await encode_json(item)) for item in items]


def page_json(page: ItemPage) -> JsonObject:
    """Return a page of stored items in OpenAI's form, as `json_encoding.iter_json` takes it."""
    data = [EncodedJson(item.body) for item in page.items]
    return page_object(data, [item.id for item in page.items], has_more=page.has_more)
