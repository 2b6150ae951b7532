"""JSON schemas as the library takes them: what it would pass over in silence is refused by name, or said otherwise.

llguidance refuses most of what it cannot hold an output to (`sources` tells the client).  Here is what it would take
and yet let an output through that the schema forbids, what it takes a long time over, and what it needs to be told.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from runtime.common.units import KIB
from runtime.errors import RequestError
from runtime.grammar.endless import pointed_at, refuse_endless

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DEPTH = 64
"""Objects and arrays of a schema within one another."""

MAX_MEMBERS = 1024
"""Members of one object of a schema: the library compares each property with each."""

MAX_OBJECTS = 8192
"""Objects of a schema, and of a whole request's."""

MAX_OPTIONAL = 240
"""Properties of one object that are not required: any may come next, four items of a step's work each."""

MAX_INSERTED = 256 * KIB
"""Characters of what is put in the place of references."""

MOST = 2**63 - 1024
"""A number: the largest that the library takes as a bound, and a double."""

OPTIONS = "x-guidance"
"""The member of a schema that speaks to the library."""

HOW_JSON_IS_WRITTEN = {"whitespace_pattern": r"(\r?\n)?[ \t]{0,40}", "json_allowed_escapes": 'nrbtf\\"'}
"""Options that every schema has.

- Between the tokens of JSON there is room for a line break and an indentation, and an end to it: a small model that has
  nothing better to say may go on with spaces for ever.
- A character has one spelling.  The library keeps the names of properties apart by their spelling, so that `"\\u0061"`
  would be another name than `"a"`, and could have any value.
"""

MAY_RELAX = frozenset({"coerce_one_of"})
"""Options that a client may give: with others an output may be no JSON."""

DRAFTS = tuple(
    f"http{path}/schema"
    for path in (
        "s://json-schema.org/draft/2020-12",
        "s://json-schema.org/draft/2019-09",
        "://json-schema.org/draft-07",
        "://json-schema.org/draft-06",
        "://json-schema.org/draft-04",
    )
)
"""Values of `$schema`.  The library takes others for the newest, in which some of their keywords mean nothing."""

_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

FORMATS = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}T{_TIME}$"}
"""Patterns in place of the library's, which know a 29th of February in every year and a second 60 in every minute."""

_NEEDS_U = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_DATA = ("const", "enum", "default", "examples")
_ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "$comment"})
_UPPER = ("maximum", "exclusiveMaximum")
_BOUNDS = ("minimum", "exclusiveMinimum", *_UPPER)


def prepare_schema(schema: Mapping[str, Any], param: str | None, *, lenient: bool = False) -> dict[str, Any]:
    """Return a schema that the library holds an output to as this one says.

    Args:
        schema: of JSON.
        param: the field of the request's body that it stands in, for errors.
        lenient: what an output cannot be held to is left out; else it is refused.

    Raises:
        RequestError: it is too large or too deep, or has what is not supported; the message names the keyword.
    """
    try:
        check_size(schema)
        refuse_endless(schema)
        options = schema.get(OPTIONS, {})
        unknown = sorted(options.keys() - MAY_RELAX) if isinstance(options, dict) else [str(options)[:100]]
        if unknown and not lenient:
            raise RequestError(f"The JSON schema's '{OPTIONS}' has what is not supported: {unknown[0]!r}.")
        prepared = _Preparation(schema, lenient=lenient).prepare()
    except RequestError as error:
        raise RequestError(str(error), param=param) from None
    allowed = {name: options[name] for name in MAY_RELAX & options.keys()} if isinstance(options, dict) else {}
    return prepared | {OPTIONS: HOW_JSON_IS_WRITTEN | allowed | {"lenient": lenient}}


def check_size(schema: Mapping[str, Any]) -> None:
    """Go through a schema, without recursion.

    Raises:
        RequestError: it is too deep, or has too many objects.
    """
    level: list[Any] = [schema]
    depth = objects = 0
    while level:
        depth += 1
        objects += len(level)
        if depth > MAX_DEPTH:
            raise RequestError(f"The JSON schema is nested more than {MAX_DEPTH} levels deep.")
        if objects > MAX_OBJECTS:
            raise RequestError(f"The JSON schema has more than {MAX_OBJECTS} objects and arrays.")
        for part in level:
            if isinstance(part, dict) and len(part) > MAX_MEMBERS:
                raise RequestError(
                    f"The JSON schema has an object with {len(part)} members; at most {MAX_MEMBERS} are allowed."
                )
        level = [inner for part in level for inner in _values(part) if isinstance(inner, dict | list)]


def _values(part: dict[str, Any] | list[Any]) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else part


class _Preparation:
    """One walk through a schema of bounded depth."""

    def __init__(self, root: Mapping[str, Any], *, lenient: bool) -> None:
        self._root = root
        self._lenient = lenient
        self._room = 0 if _has_own_base(root, is_root=True) else MAX_INSERTED
        self._in_alternative = False

    def prepare(self) -> dict[str, Any]:
        """Return the schema."""
        return self._schema(self._root)

    def _schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if not self._lenient:
            _refuse_unheld(schema)
        prepared: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword in _MAPS and isinstance(value, dict):
                prepared[keyword] = {name: self._inner(inner) for name, inner in value.items()}
            elif keyword == "oneOf" and isinstance(value, list):
                prepared[keyword] = [self._alternative(item) for item in value]
            elif keyword in _DATA:
                prepared[keyword] = value
            elif keyword in _BOUNDS:
                prepared[keyword] = _bound(keyword, value)
            else:  # also behind words that mean nothing, for a `$ref` may point to there
                prepared[keyword] = self._inner(value)
        return _with_format(prepared)

    def _inner(self, value: Any) -> Any:  # noqa: ANN401  of JSON
        if isinstance(value, dict):
            return self._schema(value)
        return [self._inner(item) for item in value] if isinstance(value, list) else value

    def _alternative(self, item: Any) -> Any:  # noqa: ANN401  of JSON
        """Return one of `oneOf`: in place of a `$ref` what it refers to, or the library would not see that they differ.

        So it is with the tagged unions that pydantic writes.  Within what is put there, a `$ref` stays.
        """
        target = None if self._in_alternative or self._lenient else self._target(item)
        if target is None:
            return self._inner(item)
        self._in_alternative = True
        prepared = self._schema(target)
        self._in_alternative = False
        return prepared

    def _target(self, item: Any) -> Mapping[str, Any] | None:  # noqa: ANN401  of JSON
        if not (isinstance(item, dict) and item.keys() - _ANNOTATIONS == {"$ref"} and self._room > 0):
            return None
        if (target := pointed_at(self._root, item["$ref"])) is None:
            return None
        self._room -= len(json.dumps(target))
        return target if self._room > 0 else None


def _has_own_base(value: Any, *, is_root: bool = False) -> bool:  # noqa: ANN401  of JSON
    """Return whether references mean another document somewhere below the root."""
    if isinstance(value, dict) and not is_root and any(isinstance(value.get(name), str) for name in ("$id", "id")):
        return True
    return isinstance(value, dict | list) and any(_has_own_base(inner) for inner in _values(value))


def _refuse_unheld(schema: Mapping[str, Any]) -> None:
    draft = schema.get("$schema")
    if isinstance(draft, str) and draft.removesuffix("#") not in DRAFTS:
        raise RequestError(f"The JSON schema's '$schema' is not supported: {draft[:100]!r}; {DRAFTS[0]!r} is, say.")
    if schema.get("format") == "unknown":  # for which the library takes any text
        raise RequestError("The JSON schema has an unknown 'format': 'unknown'.")
    for keyword in ("const", "enum"):
        for leaf in _leaves(schema.get(keyword)):
            _refuse_unwritten(keyword, leaf)
    properties = schema.get("properties")
    names = properties.keys() if isinstance(properties, dict) else set[str]()
    for name in names:
        _refuse_unwritten("properties", name)
    least, listed = schema.get("minProperties"), schema.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set[str]()
    if (optional := len(names - required)) > MAX_OPTIONAL:
        raise RequestError(
            f"The JSON schema's 'properties' has {optional} that are not required; at most {MAX_OPTIONAL} may be so."
        )
    once = len(required)
    if isinstance(least, int) and least > once + 1:  # a name that is not required may be given twice, and counts twice
        raise RequestError(
            f"The JSON schema's 'minProperties' is {least}; no more than {once + 1} are supported here, one more than "
            "'required' lists."
        )


def _refuse_unwritten(keyword: str, value: object) -> None:
    """Refuse what no output can say: what needs an escape of four digits, and numbers that are no doubles."""
    if isinstance(value, str) and _NEEDS_U.search(value):
        raise RequestError(f"The JSON schema's '{keyword}' has a control character that is not supported: {value!r}.")
    if isinstance(value, int | float) and abs(value) > 2**53:
        raise RequestError(f"The JSON schema's '{keyword}' has a number beyond 2 to the power of 53: {value}.")


def _leaves(value: Any) -> Iterator[object]:  # noqa: ANN401  of JSON
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for inner in _values(value):
            yield from _leaves(inner)
    else:
        yield value


def _bound(keyword: str, value: Any) -> Any:  # noqa: ANN401  of JSON
    """Return the nearest bound within this one that the library takes as it is: it rounds to doubles, either way.

    Raises:
        RequestError: all that is within it is beyond what the library can write.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    sign = 1 if keyword in _UPPER else -1
    if sign * value > MOST:  # as those of 64-bit integers are
        return sign * MOST
    if abs(value) > MOST:
        raise RequestError(f"The JSON schema's '{keyword}' is beyond {MOST}: {value}.")
    near = float(value)
    if sign * near > sign * value:
        near = math.nextafter(near, -sign * math.inf)
    return int(near) if isinstance(value, int) else near


def _with_format(schema: dict[str, Any]) -> dict[str, Any]:
    asked = schema.get("format")
    pattern = FORMATS.get(asked) if isinstance(asked, str) else None
    if pattern is None:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "format"}
    if "pattern" not in rest:
        return rest | {"pattern": pattern}
    also = rest.get("allOf", [])
    return rest | {"allOf": [*also, {"pattern": pattern}]} if isinstance(also, list) else schema
