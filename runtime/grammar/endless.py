"""References of a JSON schema that lead in a circle, so that no output would ever end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Node = dict[str, Any]

DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are no schemas."""

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by names, which are no keywords."""


def pointed_at(root: Mapping[str, Any], reference: object) -> Mapping[str, Any] | None:
    """Return what a `$ref` within the same document refers to; None where that is no object, or elsewhere."""
    if reference == "#":
        return root
    if not (isinstance(reference, str) and reference.startswith("#/")):
        return None
    target: Any = root
    for name in reference.removeprefix("#/").split("/"):
        if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else None


def refuse_endless(root: Mapping[str, Any]) -> None:
    """Refuse a schema of which some part can have no output that ends.

    An object ends if what it requires does, and one of several alternatives is enough.  This is followed from those
    parts that need nothing; each is looked at as often as something waits for it.

    Raises:
        RequestError: a part needs itself.
    """
    nodes = list(_objects(root))
    missing: dict[int, int] = {}
    waiting: dict[int, list[tuple[int, int]]] = {}
    met: set[tuple[int, int]] = set()
    for node in nodes:
        needs = list(_needs(root, node))
        missing[id(node)] = len(needs)
        for number, alternatives in enumerate(needs):
            for needed in alternatives:
                waiting.setdefault(id(needed), []).append((id(node), number))
    ending = [node for node, count in missing.items() if count == 0]
    while ending:
        for need in waiting.get(ending.pop(), ()):
            if need not in met:
                met.add(need)
                missing[need[0]] -= 1
                if missing[need[0]] == 0:
                    ending.append(need[0])
    if any(missing.values()):
        named = [str(node["$ref"]) for node in nodes if missing[id(node)] and isinstance(node.get("$ref"), str)]
        raise RequestError(
            f"The JSON schema's '$ref' leads in a circle that no output could end: {(named or ['#'])[0][:100]!r}."
        )


def _objects(root: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the objects that are schemas, also where nothing but a reference says so; some of them twice."""
    waiting: list[tuple[Any, bool]] = [(root, False)]
    met: set[tuple[int, bool]] = set()
    while waiting:
        part, maps = waiting.pop()
        if (id(part), maps) in met:
            continue
        met.add((id(part), maps))
        if isinstance(part, list):
            waiting += [(inner, False) for inner in part]
        elif isinstance(part, dict) and maps:
            waiting += [(inner, False) for inner in part.values()]
        elif isinstance(part, dict):
            yield part
            waiting += [(inner, name in MAPS) for name, inner in part.items() if name not in DATA]
            waiting.append((pointed_at(root, part.get("$ref")), False))


def _needs(root: Mapping[str, Any], node: Node) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield lists of which one member each has to end, so that the node does."""
    if "enum" in node or "const" in node:
        return
    if (target := pointed_at(root, node.get("$ref"))) is not None:
        yield [target]
    for keyword in ("anyOf", "oneOf"):
        alternatives = node.get(keyword)
        if isinstance(alternatives, list) and alternatives and all(isinstance(item, dict) for item in alternatives):
            yield alternatives
    together = node.get("allOf")
    yield from ([item] for item in (together if isinstance(together, list) else ()) if isinstance(item, dict))
    properties, required = node.get("properties"), node.get("required")
    if node.get("type") == "object" and isinstance(properties, dict) and isinstance(required, list):
        wanted = (properties.get(name) for name in required if isinstance(name, str))
        yield from ([inner] for inner in wanted if isinstance(inner, dict))
    items, least = node.get("items"), node.get("minItems")
    if node.get("type") == "array" and isinstance(items, dict) and isinstance(least, int) and least > 0:
        yield [items]
