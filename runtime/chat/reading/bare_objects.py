"""Objects as Gemma writes them: `{key:<|"|>text<|"|>,other:[1,true]}`, keys bare and texts between markers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments
from runtime.chat.reading.json_calls import LONGEST_NAME
from runtime.chat.reading.json_scanner import is_scalar
from runtime.chat.reading.tagged_values import json_text
from runtime.chat.reading.text import Markers, raw_until

if TYPE_CHECKING:
    from runtime.chat.reading.source import Reading, Source

KEY_ENDS = ":,{}[]<"
"""What no bare key has in it."""

_SCALAR_ENDS = ",}]<"
_VALUE_ENDS = (",", "}", "]")
_OTHER_QUOTES = "\"'"
_CLOSING = {"{": "}", "[": "]"}
_NEXT_VALUE = re.compile(r"[,{\[]\s*(?:[^,:{}\[\]<]{1,256}:\s*)?")
_LONGEST_NEXT = 300  # characters of the same
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NULLS = ("null", "none", "nil")


class BareObject:
    """Reads the arguments of one call, and makes JSON of them as they come.

    What is neither a number nor a word of JSON is a text, though it has no markers.  Quotes of other kinds stand for
    the markers where a value begins with one, and behind another one it ends.

    Args:
        source: at the opening brace.
        number: of the call.
        quote: the marker before and behind a text.
    """

    def __init__(self, source: Source, number: int, quote: str) -> None:
        self._source = source
        self._number = number
        self._quote = quote
        self._quotes = Markers(quote)
        self._closing: list[str] = []  # what ends the objects and arrays that are open
        self._first = True  # in the innermost of them

    def read(self) -> Reading[bool]:
        """Read it; return whether it is whole."""
        while True:
            char = yield from self._separate()
            if char is None:
                return False
            if self._closing and char == self._closing[-1]:
                yield self._take(self._closing.pop())
                self._first = False
                if not self._closing:
                    return True
            elif not (yield from self._read_member(char)):
                return False

    def _separate(self) -> Reading[str | None]:
        """Read the comma behind a member; return what follows, unread, or None where there is neither it nor an end."""
        char = yield from self._source.skip_spaces()
        if self._first or char == self._closing[-1]:
            return char
        if char != ",":
            return None
        self._source.take(self._source.at + 1)
        return (yield from self._source.skip_spaces())

    def _read_member(self, char: str) -> Reading[bool]:
        """Read a key, where one is due, and a value, of which the first character of an object or array is enough."""
        if not self._first:
            yield CallArguments(self._number, ", ")
        if self._closing and self._closing[-1] == "}":
            if not (yield from self._read_key()):
                return False
            char = yield from self._source.skip_spaces()
        self._first = char in _CLOSING
        if not self._first:
            return (yield from self._read_value())
        yield self._take(char)
        self._closing.append(_CLOSING[char])
        return True

    def _take(self, char: str) -> CallArguments:
        self._source.take(self._source.at + 1)
        return CallArguments(self._number, char)

    def _read_key(self) -> Reading[bool]:
        if (yield from self._source.accept(self._quote)):
            yield CallArguments(self._number, '"')
            if not (yield from self._read_text(":")):
                return False
            yield from self._source.skip_spaces()
            whole = yield from self._source.accept(":")
            yield CallArguments(self._number, ": ")
            return bool(whole)
        key = yield from self._source.take_until(KEY_ENDS, LONGEST_NAME)
        if key is None or not (yield from self._source.accept(":")):
            return False
        key = key.strip()
        quoted = len(key) > 1 and key[0] in _OTHER_QUOTES and key[-1] == key[0]
        yield CallArguments(self._number, f"{json_text(key[1:-1] if quoted else key)}: ")
        return True

    def _read_value(self) -> Reading[bool]:
        """Read a text, a number or a word."""
        if (yield from self._source.accept(self._quote)):
            yield CallArguments(self._number, '"')
            return (yield from self._read_text(*_VALUE_ENDS))
        quote = yield from self._source.accept(*_OTHER_QUOTES)
        if quote and (yield from self._read_quoted(quote)):
            return True
        said = yield from self._source.take_until(_SCALAR_ENDS, LONGEST_NAME)
        word = (said or "").strip()
        if not word or (quote and word.count(quote) == 1):  # the one behind it is missing
            return False
        if word.lower() in ("true", "false", *_NULLS):
            word = "null" if word.lower() in _NULLS else word.lower()
        yield CallArguments(self._number, word if is_scalar(word) else json_text(word))
        return True

    def _read_text(self, *ends: str) -> Reading[bool]:
        """Read a text from behind its opening marker on; return whether it is whole.

        A marker ends it where one of `ends` follows.  Another one is text, but for one where a further value could
        begin: then the marker between the two is missing.
        """
        before = ""
        while True:
            piece = yield from raw_until(self._source, self._quotes)
            if piece.text:
                yield CallArguments(self._number, json_text(piece.text)[1:-1])
            before = (before + piece.text)[-_LONGEST_NEXT:]
            if piece.marker:
                if (yield from self._source.follows(*ends)) != "":
                    yield CallArguments(self._number, '"')
                    return True
                if _ends_with(_NEXT_VALUE, before):
                    return False
                yield CallArguments(self._number, json_text(self._quote)[1:-1])
                before = ""
            if piece.last:
                return False

    def _read_quoted(self, quote: str) -> Reading[bool]:
        """Read a text between quotes of another kind, from behind the first on.

        Returns:
            Whether there is one; if not, nothing was read, nor is the first quote any more.
        """
        said, quotes = "", Markers(quote)
        while True:
            piece = yield from raw_until(self._source, quotes)
            said += piece.text
            escaped = (len(said) - len(said.rstrip("\\"))) % 2
            if piece.marker and not escaped and (yield from self._source.follows(*_VALUE_ENDS)) != "":
                yield CallArguments(self._number, json_text(_ESCAPE.sub(_unescaped, said)))
                return True
            said += piece.marker
            if piece.last or (piece.marker and _ends_with(_NEXT_VALUE, said[-_LONGEST_NEXT:-1])):
                self._source.unread(quote + said)
                return False


def _ends_with(pattern: re.Pattern[str], text: str) -> bool:
    return any(pattern.fullmatch(text, at) for at in range(len(text)) if text[at] in ",{[")


def _unescaped(match: re.Match[str]) -> str:
    """Return what an escape says; a backslash before what it cannot escape is a backslash."""
    escape = match[0]
    if escape[1] in "\"'":
        return escape[1]
    try:
        return str(json.loads(f'"{escape}"', strict=False))
    except ValueError:
        return escape
