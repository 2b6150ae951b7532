"""Bounds of a JSON schema: what in it could be of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

BOUNDS: dict[str, list[tuple[str, ...]]] = {
    "string": [("maxLength",)],
    "array": [("maxItems",)],
    "integer": [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")],
    "number": [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")],
}
CLOSED = {"enum", "const"}  # a choice of what we wrote ourselves


def unbounded(schema: Json) -> list[str]:
    """The paths of all strings, arrays, objects, numbers and values of any kind that could be of any size."""
    return list(_unbounded(schema, schema.get("$defs", {}), "$", counted=False))


def _unbounded(node: Json, models: Json, path: str, *, counted: bool) -> Iterator[str]:
    """`counted`: something above says how many values there can be below, at any depth."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        yield from _unbounded(models[name], models, f"{path}:{name}", counted=counted)
        return
    counted = counted or "maxValues" in node
    members = node.get("anyOf", []) + node.get("oneOf", [])
    kind = node.get("type")
    if not members and kind is None and not CLOSED & node.keys() and not counted:
        yield f"{path} may be anything"
    if not CLOSED & node.keys():
        for either in BOUNDS.get(kind or "", []):
            if not any(bound in node for bound in either):
                yield f"{path} ({kind}) has no {either[0]}"
    if kind == "object" and "properties" not in node and "maxProperties" not in node:
        yield f"{path} (object) has no maxProperties"
    if kind == "object" and "properties" not in node and "propertyNames" not in node:
        yield f"{path} (object) has keys of any length"
    if kind == "object" and "properties" not in node and node.get("additionalProperties") is True and not counted:
        yield f"{path}{{}} may be anything"
    below = [(f"{path}|{number}", member) for number, member in enumerate(members)]
    below += [(f"{path}.{name}", field) for name, field in node.get("properties", {}).items()]
    below += [(f"{path}{where}", node[name]) for name, where in _CHILDREN.items() if isinstance(node.get(name), dict)]
    below += [(f"{path} keys", {"type": "string", **node["propertyNames"]})] if "propertyNames" in node else []
    for where, child in below:
        yield from _unbounded(child, models, where, counted=counted)


_CHILDREN = {"items": "[]", "additionalProperties": "{}"}
