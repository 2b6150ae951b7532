"""Schemas whose objects have the properties that they list, and no others.

JSON Schema leaves an object open that does not say `additionalProperties`.  A model under a grammar then makes up keys,
a weak one until its limit; and who writes `format` for Ollama, or a tool, means those that are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENS = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "minProperties", "propertyNames"}
)
"""Keywords that speak of other properties: such an object stays as it is."""

JOINED = ("allOf", "anyOf", "oneOf", "$ref", "if", "then", "else", "not", "dependentSchemas")
"""Keywords by which several schemas describe one object: what one of them does not list, another may."""

_DATA = ("const", "enum", "default", "examples")


def closed_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with `additionalProperties: false` in each object that lists properties and names no others.

    Objects that are described in several places stay open: those beside or within an `allOf`, say.
    """
    if _joins(schema):
        return dict(schema)
    return _closed(schema)


def _joins(part: Any) -> bool:  # noqa: ANN401  of JSON
    """Whether any object of a schema is described in several places by `allOf`: its parts may be far apart."""
    if isinstance(part, dict):
        together = part.get("allOf")
        if isinstance(together, list) and (len(together) > 1 or "properties" in part):
            return True
        return any(_joins(inner) for name, inner in part.items() if name not in _DATA)
    return isinstance(part, list) and any(map(_joins, part))


def _closed(schema: Mapping[str, Any], *, part_of_object: bool = False) -> dict[str, Any]:
    properties = schema.get("properties")
    lists = isinstance(properties, dict) and bool(properties)
    closed: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _DATA:
            closed[keyword] = value
        else:
            joined = keyword in JOINED and (lists or part_of_object)
            maps = keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
            closed[keyword] = _inner(value, joined=joined, maps=maps)
    required = schema.get("required")
    unlisted = (
        isinstance(required, list) and isinstance(properties, dict) and any(n not in properties for n in required)
    )
    if lists and not (part_of_object or unlisted or OPENS & schema.keys() or any(name in schema for name in JOINED)):
        closed["additionalProperties"] = False
    return closed


def _inner(value: Any, *, joined: bool, maps: bool = False) -> Any:  # noqa: ANN401  of JSON
    if isinstance(value, list):
        return [_inner(item, joined=joined) for item in value]
    if not isinstance(value, dict):
        return value
    if maps:
        return {name: _inner(inner, joined=joined) for name, inner in value.items()}
    return _closed(value, part_of_object=joined)
