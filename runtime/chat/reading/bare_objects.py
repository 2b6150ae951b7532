"""Objects as Gemma writes them: `{key:<|"|>text<|"|>,other:[1,true]}`, keys bare and texts between markers."""

from __future__ import annotations

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
_CLOSING = {"{": "}", "[": "]"}
_NULLS = ("null", "none", "nil")


class BareObject:
    """Reads the arguments of one call, and makes JSON of them as they come.

    What is neither a number nor a word of JSON is a text, though it has no markers.

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
            if not (yield from self._read_text()):
                return False
            yield from self._source.skip_spaces()
            whole = yield from self._source.accept(":")
            yield CallArguments(self._number, ": ")
            return bool(whole)
        key = yield from self._source.take_until(KEY_ENDS, LONGEST_NAME)
        if key is None or not (yield from self._source.accept(":")):
            return False
        yield CallArguments(self._number, f"{json_text(key.strip())}: ")
        return True

    def _read_value(self) -> Reading[bool]:
        """Read a text, a number or a word."""
        if (yield from self._source.accept(self._quote)):
            yield CallArguments(self._number, '"')
            return (yield from self._read_text())
        said = yield from self._source.take_until(_SCALAR_ENDS, LONGEST_NAME)
        word = (said or "").strip()
        if not word:
            return False
        if word.lower() in ("true", "false", *_NULLS):
            word = "null" if word.lower() in _NULLS else word.lower()
        yield CallArguments(self._number, word if is_scalar(word) else json_text(word))
        return True

    def _read_text(self) -> Reading[bool]:
        """Read a text from behind its opening marker on; return whether it is whole."""
        while True:
            piece = yield from raw_until(self._source, self._quotes)
            if piece.text:
                yield CallArguments(self._number, json_text(piece.text)[1:-1])
            if piece.marker:
                yield CallArguments(self._number, '"')
            if piece.marker or piece.last:
                return bool(piece.marker)
