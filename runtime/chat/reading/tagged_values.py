"""Arguments that stand between tags, without quotes: a tool's schema says what each value is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from runtime.chat.parts import CallArguments, CallEnd, CallStart
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.json_strings import INPUT
from runtime.chat.reading.text import Markers, raw_until
from runtime.grammar.endless import pointed_at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runtime.chat.conversation import Tool
    from runtime.chat.reading.source import Reading, Source

Schema = dict[str, Any]

LONGEST_CHAIN = 64
"""References of a schema, one to the next, and alternatives within one another, that its types are looked for in."""

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_schema(tool: Tool) -> Schema:
    """Return the JSON schema by which a tool's arguments are read."""
    return {"properties": {INPUT: {"type": "string"}}} if tool.custom else dict(tool.parameters)


@dataclass(frozen=True, slots=True)
class ArgumentTags:
    """Format of the arguments of a call, each between tags.

    Attributes:
        head: stands before an argument's name.
        name_stops: characters that end a name.
        name_end: stands behind a name.
        value: stands before a value, behind spaces; empty where `name_end` does already.
        value_end: the tag behind a value.
        call_end: stands behind the last argument.
        lines: each value stands on lines of its own: a line break before it and one behind it are no part of it.
    """

    head: str
    name_stops: str
    name_end: str
    value_end: str
    call_end: str
    value: str = ""
    lines: bool = False

    def next_tag(self, source: Source) -> Reading[str]:
        """Read `head` or `call_end`, and return which it was; empty where something else follows."""
        yield from source.skip_spaces()
        return (yield from source.accept(self.head, self.call_end))

    def heads(self, keys: Collection[str]) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
        """Return what matches the beginning of an argument of these names, or of any where there are none.

        Returns:
            Also what matches it without `head`; None where too little of it is left.
        """
        names = "|".join(map(re.escape, keys)) or f"[^{re.escape(self.name_stops)}]{{1,{LONGEST_NAME}}}"
        head, rest = re.escape(self.head), rf"({names}){re.escape(self.name_end)}\s*{re.escape(self.value)}"
        return re.compile(head + rest), re.compile(f"(?<!{head}){rest}") if self.value else None

    def read_call(
        self, source: Source, name: str, schemas: Mapping[str, Schema], tag: str | None = None
    ) -> Reading[bool]:
        """Read a call whose name has been read, and return whether it is whole.

        Args:
            source: behind the name and, if that was read, the tag that follows.
            name: of the tool.
            schemas: of all tools' arguments, by their names.
            tag: which `next_tag` has returned; None if it was not read yet.
        """
        source.recorded()
        number = source.next_call()
        yield CallStart(number, name)
        arguments = TaggedArguments(number, self, schemas.get(name))
        yield CallArguments(number, "{")
        if tag is None:
            tag = yield from self.next_tag(source)
        while tag == self.head and (yield from self._read_argument(source, arguments)):
            tag = yield from self.next_tag(source)
        if tag == self.call_end and not arguments.doubtful:
            yield CallArguments(number, "}")
            yield CallEnd(number)
            return True
        if source.starved:
            source.take(len(source.text))  # what is left of a tag
        return False

    def _read_argument(self, source: Source, arguments: TaggedArguments) -> Reading[bool]:
        """Read an argument from behind its head on, and return whether it is whole."""
        key = yield from source.take_until(self.name_stops, LONGEST_NAME)
        if key is None or not (yield from source.accept(self.name_end)):
            return False
        if self.value:
            yield from source.skip_spaces()
            if not (yield from source.accept(self.value)):
                return False
        return (yield from arguments.read(source, key.strip()))


class TaggedArguments:
    """The arguments of one call, which become an object of JSON as they come.

    A value may hold the tag that ends values.  One ends it where an argument or the call's end follows, but not where
    it ends an argument that began within the value: then the value is an example of a call.  If no other end comes,
    it was no example, and the first such tag was the end.

    Args:
        number: of the call.
        tags: of the format.
        schema: of the tool's arguments; None where the tool is not known.
    """

    def __init__(self, number: int, tags: ArgumentTags, schema: Schema | None) -> None:
        self._number = number
        self._tags = tags
        self._schema = schema or {}
        properties = self._schema.get("properties")
        self._properties = properties if isinstance(properties, dict) else {}
        self._required = list_in(self._schema, "required")
        self._heads, self._beheaded = tags.heads(self._properties)
        self._given: set[str] = set()
        self._swallowed: set[str] = set()  # names that stand in values as if their argument began there
        self._stray = False  # a value holds an end tag, behind which there may have been a head
        self._wrong = False  # so does one whose type is another

    @property
    def doubtful(self) -> bool:
        """Return whether a tag seems to be missing: an argument that is absent may stand in the value of another."""
        missing = [key for key in self._required if key not in self._given]
        return self._wrong or bool(self._swallowed - self._given) or (self._stray and bool(missing))

    def read(self, source: Source, key: str) -> Reading[bool]:
        """Read a value and its end tag; strings as they come.  Return whether it is whole.

        Args:
            source: behind the value's tag.
            key: that the value belongs to.
        """
        types = types_of(self._properties.get(key), self._schema)
        text = types <= {"string"}
        quote = '"' if text else ""
        yield CallArguments(self._number, f"{', ' if self._given else ''}{json_text(key)}: {quote}")
        self._given.add(key)
        if self._tags.lines:
            yield from source.accept("\n")
        value = _Value(self._tags)
        shown = 0  # pieces
        while not value.ended:
            yield from self._read_piece(source, value)
            sure = len(value.pieces) if value.end is None else value.end
            if text and (said := "".join(value.pieces[shown:sure])):
                yield CallArguments(self._number, json_text(said)[1:-1])
            shown = max(shown, sure)
        if value.whole:
            typed = '"' if text else _typed(value.text, types)
            self._look(value.text, wrong=not text and "string" not in types and typed[0] == '"')
            yield CallArguments(self._number, typed)
        return value.whole

    def _read_piece(self, source: Source, value: _Value) -> Reading[None]:
        """Read more of a value, and the end tag behind it if that came."""
        piece = yield from raw_until(source, value.markers)
        value.add(piece.text)
        if not piece.marker:
            value.ended = piece.last
            if value.ended and value.end is not None and not source.cut:
                source.unread(value.cut())
            return
        follows = yield from source.follows(self._tags.head, self._tags.call_end)
        if follows == "":
            value.add_tag()
        elif self._open(value.text):
            value.end = len(value.pieces) if value.end is None else value.end
            value.add_tag()
        else:
            value.end, value.ended, value.whole = None, True, True

    def _open(self, said: str) -> int:
        """Return how many arguments that begin within a value have no end in it; negative where it has more ends."""
        return sum(1 for _ in self._heads.finditer(said)) - said.count(self._tags.value_end)

    def _look(self, said: str, *, wrong: bool) -> None:
        """Look for tags in a whole value that tell of others which are missing; `wrong`: it should be no string."""
        unclosed = self._open(said)
        if unclosed > 0:
            self._swallowed.update(match[1] for match in self._heads.finditer(said))
        if self._beheaded is not None and self._tags.value_end in said:
            self._swallowed.update(match[1] for match in self._beheaded.finditer(said))
        self._stray |= unclosed < 0
        self._wrong |= unclosed < 0 and wrong


class _Value:
    """Part of a value that has come.

    Attributes:
        pieces: of it.
        end: which of them is an end tag that may be the value's own; None if none is.
        ended: no more of it comes.
        whole: its end tag was read.
    """

    def __init__(self, tags: ArgumentTags) -> None:
        self._tags = tags
        self.markers = Markers(tags.value_end)
        self.pieces: list[str] = []
        self.end: int | None = None
        self.ended = False
        self.whole = False
        self._line = ""  # a line break, which belongs to the tag if that follows and is the end

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def add(self, text: str) -> None:
        """Add a piece."""
        said = self._line + text
        self._line = "\n" if self._tags.lines and said.endswith("\n") else ""
        self.pieces.append(said[: len(said) - len(self._line)])

    def add_tag(self) -> None:
        """Add an end tag that is not the value's."""
        self.pieces.append(self._line + self._tags.value_end)
        self._line = ""

    def cut(self) -> str:
        """Take the tag that may be its end for that; return what came behind it."""
        assert self.end is not None
        rest = "".join(self.pieces[self.end + 1 :]) + self._line
        del self.pieces[self.end :]
        self.end, self.whole = None, True
        return rest


def json_text(text: str) -> str:
    """Return a text as a JSON string; halves of pairs, which JSON cannot hold, are question marks."""
    return json.dumps(_SURROGATES.sub("?", text), ensure_ascii=False)


def types_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema allows; none where it does not say.

    Args:
        schema: is asked for.
        root: holds it: its references are to parts of this.
    """
    return _types_of(schema, root, {}, 0)


def _types_of(schema: object, root: Mapping[str, Any], known: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """Return the types; `known` holds those of schemas that were looked at, none as yet where that goes on."""
    if not isinstance(schema, dict) or depth > LONGEST_CHAIN:
        return frozenset()
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = frozenset()
    said = [_own_types(schema)]
    for word in ("anyOf", "oneOf"):
        choices = (_types_of(one, root, known, depth + 1) for one in list_in(schema, word))
        said.append(frozenset[str]().union(*choices))
    together = [pointed_at(root, schema.get("$ref")), *list_in(schema, "allOf")]
    said += [_types_of(one, root, known, depth + 1) for one in together]
    said = [types for types in said if types]
    if said:
        known[id(schema)] = frozenset.intersection(*said) or frozenset.union(*said)
    return known[id(schema)]


def _own_types(schema: Schema) -> frozenset[str]:
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else list_in(schema, "type")
    if not types:
        values = list_in(schema, "enum") or ([schema["const"]] if "const" in schema else [])
        types = [_TYPES.get(type(value), "null") for value in values]
    if not types and "properties" in schema:
        types = ["object"]
    return frozenset(word for word in types if isinstance(word, str))


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
