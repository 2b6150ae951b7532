"""Schemas whose objects have the properties that they list, and no others.

JSON Schema leaves an object open that does not say `additionalProperties`.  A model under a grammar then makes up keys,
a weak one until its limit; and who writes `format` for Ollama, or a tool, means those that are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.grammar.endless import DATA, MAPS, pointed_at

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENS = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "minProperties", "propertyNames"}
)
"""Keywords that speak of other properties: such an object stays as it is."""

JOINED = frozenset({"allOf", "anyOf", "oneOf", "$ref", "if", "then", "else", "not", "dependentSchemas"})
"""Keywords by which several schemas describe one object: what one of them does not list, another may."""


def closed_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with `additionalProperties: false` in each object that lists properties and names no others.

    Objects that are described in several places stay open, with what these refer to: those beside or within an `allOf`,
    say.
    """
    if _is_joined_by_all(schema):
        return dict(schema)
    return _closed(schema, _parts(schema))


def _is_joined_by_all(part: Any, *, maps: bool = False) -> bool:  # noqa: ANN401  of JSON
    """Return whether any object of a schema is described in several places by `allOf`: its parts may be far apart."""
    if isinstance(part, dict):
        together = part.get("allOf")
        if isinstance(together, list) and (len(together) > 1 or "properties" in part):
            return True
        inside = ((name, inner) for name, inner in part.items() if maps or name not in DATA)
        return any(_is_joined_by_all(inner, maps=name in MAPS and not maps) for name, inner in inside)
    return isinstance(part, list) and any(map(_is_joined_by_all, part))


def _parts(root: Mapping[str, Any]) -> frozenset[int]:
    """Return the identities of the schemas that describe an object together with others."""
    waiting: list[tuple[Any, bool, bool]] = [(root, False, False)]
    met: set[tuple[int, bool, bool]] = set()
    while waiting:
        part, is_part, maps = waiting.pop()
        if (id(part), is_part, maps) in met:
            continue
        met.add((id(part), is_part, maps))
        if isinstance(part, list):
            waiting += [(inner, is_part, False) for inner in part]
        elif isinstance(part, dict) and maps:
            waiting += [(inner, is_part, False) for inner in part.values()]
        elif isinstance(part, dict):
            joins = is_part or _joins(part)
            inside = ((name, inner) for name, inner in part.items() if name not in DATA)
            waiting += [(inner, joins and name in JOINED, name in MAPS) for name, inner in inside]
            if joins:
                waiting.append((pointed_at(root, part.get("$ref")), True, False))
    return frozenset(part for part, is_part, maps in met if is_part and not maps)


def _joins(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema says something of an object beside what it joins, or joins it by several keywords."""
    says = [word for word in ("properties", "required") if schema.get(word)]
    joining = JOINED & schema.keys()
    return bool(joining) and len(joining) + len(says) + len(OPENS & schema.keys()) > 1


def _closed(schema: Mapping[str, Any], parts: frozenset[int]) -> dict[str, Any]:
    closed = {
        keyword: value if keyword in DATA else _inner(value, parts, maps=keyword in MAPS)
        for keyword, value in schema.items()
    }
    properties, required = schema.get("properties"), schema.get("required")
    if not (isinstance(properties, dict) and properties) or id(schema) in parts or (OPENS | JOINED) & schema.keys():
        return closed
    if not (isinstance(required, list) and any(name not in properties for name in required)):
        closed["additionalProperties"] = False
    return closed


def _inner(value: Any, parts: frozenset[int], *, maps: bool = False) -> Any:  # noqa: ANN401  of JSON
    if isinstance(value, list):
        return [_inner(item, parts) for item in value]
    if not isinstance(value, dict):
        return value
    if maps:
        return {name: _inner(inner, parts) for name, inner in value.items()}
    return _closed(value, parts)
