"""Arguments that stand between tags, without quotes: a tool's schema says what each value is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from runtime.chat.parts import CallArguments, CallEnd, CallStart
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.json_strings import INPUT
from runtime.chat.reading.text import raw_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.reading.source import Reading, Source
    from runtime.chat.reading.text import Markers

Schema = dict[str, Any]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_schema(tool: Tool) -> Schema:
    """Return the JSON schema by which a tool's arguments are read."""
    return {"properties": {INPUT: {"type": "string"}}} if tool.custom else dict(tool.parameters)


@dataclass(frozen=True, slots=True)
class ArgumentTags:
    """How a format writes the arguments of a call, each between tags.

    Attributes:
        head: stands before an argument's name.
        name_stops: characters that end a name.
        name_end: stands behind a name.
        value: stands before a value, behind spaces; empty where `name_end` does already.
        value_end: the tag behind a value.
        call_end: stands behind the last argument.
        lines: each value stands on lines of its own.
    """

    head: str
    name_stops: str
    name_end: str
    value_end: Markers
    call_end: str
    value: str = ""
    lines: bool = False

    def next_tag(self, source: Source) -> Reading[str]:
        """Read `head` or `call_end`, and return which it was; empty where something else follows."""
        yield from source.skip_spaces()
        return (yield from source.accept(self.head, self.call_end))

    def read_call(
        self, source: Source, name: str, schemas: Mapping[str, Schema], tag: str | None = None
    ) -> Reading[bool]:
        """Read a call whose name has been read, and return whether it came to its end.

        Args:
            source: behind the name and, if that was read, the tag that follows.
            name: of the tool.
            schemas: of all tools' arguments, by their names.
            tag: which `next_tag` has returned; None if it was not read yet.
        """
        source.recorded()
        number = source.next_call()
        yield CallStart(number, name)
        arguments = TaggedArguments(number, schemas.get(name))
        yield from arguments.start()
        if tag is None:
            tag = yield from self.next_tag(source)
        while tag == self.head:
            if not (yield from self._read_argument(source, arguments)):
                return False
            tag = yield from self.next_tag(source)
        if tag:
            yield from arguments.finish()
        return bool(tag)

    def _read_argument(self, source: Source, arguments: TaggedArguments) -> Reading[bool]:
        """Read an argument from behind its head on, and return whether it is whole."""
        key = yield from source.take_until(self.name_stops, LONGEST_NAME)
        if key is None or not (yield from source.accept(self.name_end)):
            return False
        if self.value:
            yield from source.skip_spaces()
            if not (yield from source.accept(self.value)):
                return False
        return (yield from arguments.read(source, key.strip(), self.value_end, lines=self.lines))


class TaggedArguments:
    """The arguments of one call, which become an object of JSON as they come.

    Args:
        number: of the call.
        schema: of the tool's arguments; None where the tool is not known.
    """

    def __init__(self, number: int, schema: Schema | None) -> None:
        self._number = number
        self._properties = (schema or {}).get("properties")
        self._begun = False

    def start(self) -> Reading[None]:
        """Begin the object."""
        yield CallArguments(self._number, "{")

    def finish(self) -> Reading[None]:
        """End the object, and with it the call."""
        yield CallArguments(self._number, "}")
        yield CallEnd(self._number)

    def read(self, source: Source, key: str, end: Markers, *, lines: bool = False) -> Reading[bool]:
        """Read a value up to its end tag; strings as they come.  Return whether it is whole.

        Args:
            source: behind the value's tag.
            key: that the value belongs to.
            end: the tag behind it, which is read, too.
            lines: the value stands on lines of its own: a line break before it and one behind it are no part of it.
        """
        types = types_of(self._properties.get(key)) if isinstance(self._properties, dict) else frozenset[str]()
        yield CallArguments(self._number, f"{', ' if self._begun else ''}{json_text(key)}: ")
        self._begun = True
        if lines:
            yield from source.accept("\n")
        text = types <= {"string"}
        if text:
            yield CallArguments(self._number, '"')
        held: list[str] = []
        last = ""  # a line break, which belongs to the tag if that follows
        while True:
            piece = yield from raw_until(source, end)
            said = last + piece.text
            last = "\n" if lines and said.endswith("\n") else ""
            said = said[: len(said) - len(last)]
            if text and said:
                yield CallArguments(self._number, json_text(said)[1:-1])
            elif not text:
                held.append(said)
            if piece.marker or piece.last:
                break
        if piece.marker:
            yield CallArguments(self._number, '"' if text else _typed("".join(held), types))
        return bool(piece.marker)


def json_text(text: str) -> str:
    """Return a text as a JSON string; halves of pairs, which JSON cannot hold, are question marks."""
    return json.dumps(_SURROGATES.sub("?", text), ensure_ascii=False)


def types_of(schema: object) -> frozenset[str]:
    """Return the JSON types that a schema allows; none where it does not say."""
    return frozenset(_types_of(schema))


def _types_of(schema: object) -> list[str]:
    if not isinstance(schema, dict):
        return []
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else list_in(schema, "type")
    values = list_in(schema, "enum") or ([schema["const"]] if "const" in schema else [])
    if not types:
        types = [_TYPES.get(type(value), "null") for value in values]
    choices = [choice for word in ("anyOf", "oneOf") for choice in list_in(schema, word)]
    return [*(word for word in types if isinstance(word, str)), *(word for one in choices for word in _types_of(one))]


def list_in(schema: Mapping[str, Any], word: str) -> list[Any]:
    """Return a list that stands in a schema; an empty one where it is something else, for clients write schemas."""
    value = schema.get(word)
    return value if isinstance(value, list) else []


def _typed(said: str, types: frozenset[str]) -> str:
    """Return the JSON of a value that is to have one of these types; a string where it has none of them."""
    word = said.strip()
    if "boolean" in types and word.lower() in ("true", "false"):
        return word.lower()
    if "null" in types and word.lower() in ("null", "none"):
        return "null"
    try:
        value = json.loads(word, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return json_text(said)
    kind = _TYPES.get(type(value), "null")
    fits = kind in types or (kind in ("integer", "number") and types & {"integer", "number"})
    return word if fits else json_text(said)


def _no_constant(name: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, which Python's reader takes and JSON does not have."""
    raise ValueError(f"{name} is no JSON")
