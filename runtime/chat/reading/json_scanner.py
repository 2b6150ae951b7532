"""Search for the end of a JSON value, in a text that comes in pieces."""

from __future__ import annotations

import enum
import json
import re

_RUN = re.compile(r'[^"\\\x00-\x1f]+')  # of a string
_SPACES = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_SCALAR_FIRST = frozenset("-0123456789tfn")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_CLOSING = {"{": "}", "[": "]"}

_NO_CHARACTER = "\\ufffd"  # in place of half of a surrogate pair
_NOT_JSON = {"True": "true", "False": "false", "None": "null"} | {
    word: f'"{word}"' for word in ("NaN", "Infinity", "-Infinity")
}
"""Words that models write for scalars, as Python does, and what they are in JSON, which has no such numbers."""

_REPAIRED_FIRST = _SCALAR_FIRST | {word[0] for word in _NOT_JSON}


def is_scalar(text: str) -> bool:
    """Return whether a text is a number of JSON, or one of its three words."""
    return _SCALAR.fullmatch(text) is not None


class _Next(enum.Enum):
    """Kind of what may come next outside of strings."""

    VALUE = enum.auto()
    VALUE_OR_END = enum.auto()  # of an array
    KEY = enum.auto()
    KEY_OR_END = enum.auto()
    COLON = enum.auto()
    COMMA_OR_END = enum.auto()


class JsonScanner:
    """Follows one JSON value (RFC 8259) to its end; each character is looked at once.

    Raw control characters within strings, which models write and JSON forbids, are escaped.

    Args:
        repairs: what else models write and JSON has not, but can only mean one thing, is written as JSON: a backslash
            before what it cannot escape is a backslash, half of a surrogate pair is U+FFFD, and see `_NOT_JSON`.

    Attributes:
        done: the value is whole.
        failed: it is no JSON.
    """

    def __init__(self, *, repairs: bool = False) -> None:
        self.done = False
        self.failed = False
        self._repairs = repairs
        self._scalar_first = _REPAIRED_FIRST if repairs else _SCALAR_FIRST
        self._open: list[str] = []  # brackets
        self._next = _Next.VALUE
        self._in_string = False
        self._in_key = False
        self._escape = ""  # what came of one
        self._high = ""  # the escape of a pair's first half
        self._scalar: list[str] = []

    def feed(self, text: str, at: int) -> tuple[int, str]:
        """Go on at index `at`; return the index behind what belongs to the value, and how that is to be written."""
        written: list[str] = []
        while at < len(text) and not self.done and not self.failed:
            at = self._string(text, at, written) if self._in_string else self._structure(text, at, written)
        return at, "".join(written)

    def finish(self) -> str:
        """Note that no text follows: a number at the top ends there, and is returned; what is not whole has failed."""
        written: list[str] = []
        if self._scalar and not self._open:
            self._end_scalar(written)
        self.failed = not self.done
        return "".join(written)

    def _string(self, text: str, at: int, written: list[str]) -> int:
        char = text[at]
        if self._escape or char == "\\":
            return self._escaped(char, at, written)
        written.append(self._half())
        if run := _RUN.match(text, at):
            written.append(run[0])
            return run.end()
        if char == '"':
            self._in_string = False
            if self._in_key:
                self._next = _Next.COLON
            else:
                self._end_value()
        else:
            char = json.dumps(char)[1:-1]
        written.append(char)
        return at + 1

    def _escaped(self, char: str, at: int, written: list[str]) -> int:
        """Take a backslash, or what is behind one; what comes of an escape is written when it is whole."""
        escape = self._escape + char
        if _ESCAPE.fullmatch(escape):
            self._escape = ""
            written.append(self._paired(escape))
        elif _ESCAPE_BEGUN.fullmatch(escape):
            self._escape = escape
        elif self._repairs:
            written.append(f"{self._half()}\\{self._escape}")
            self._escape = ""
            return at
        else:
            self.failed = True
            return at
        return at + 1

    def _paired(self, escape: str) -> str:
        """Return a whole escape as it is to be written now; the first half of a pair is, with the second."""
        unit = int(escape[2:], 16) if self._repairs and escape[1] == "u" else 0
        if 0xDC00 <= unit < 0xE000:
            high, self._high = self._high, ""
            return high + escape if high else _NO_CHARACTER
        half = self._half()
        if 0xD800 <= unit < 0xDC00:
            self._high = escape
            return half
        return half + escape

    def _half(self) -> str:
        """Return what stands for half of a pair, if there is one."""
        high, self._high = self._high, ""
        return _NO_CHARACTER if high else ""

    def _structure(self, text: str, at: int, written: list[str]) -> int:
        run = _WORD.match(text, at) if self._scalar or text[at] in self._scalar_first else None
        if run is not None and (self._scalar or self._next in (_Next.VALUE, _Next.VALUE_OR_END)):
            self._scalar.append(run[0])
            return run.end()
        if self._scalar:
            self._end_scalar(written)
            return at
        if (run := _SPACES.match(text, at)) is None:
            self._bracket(text[at])
            if not self.failed:
                written.append(text[at])
            return at + (not self.failed)
        written.append(run[0])
        return run.end()

    def _bracket(self, char: str) -> None:
        """Take a character that is neither in a string or a number nor whitespace."""
        expected, innermost = self._next, self._open[-1] if self._open else ""
        match char:
            case '"' if expected is not _Next.COLON and expected is not _Next.COMMA_OR_END:
                self._in_string = True
                self._in_key = expected in (_Next.KEY, _Next.KEY_OR_END)
            case "{" | "[" if expected in (_Next.VALUE, _Next.VALUE_OR_END):
                self._open.append(char)
                self._next = _Next.KEY_OR_END if char == "{" else _Next.VALUE_OR_END
            case ":" if expected is _Next.COLON:
                self._next = _Next.VALUE
            case "," if expected is _Next.COMMA_OR_END:
                self._next = _Next.KEY if innermost == "{" else _Next.VALUE
            case "}" | "]" if expected.name.endswith("_END") and _CLOSING[innermost] == char:
                self._open.pop()
                self._end_value()
            case _:
                self.failed = True

    def _end_scalar(self, written: list[str]) -> None:
        """Write a number or a word, of which only the character behind it tells that it is whole."""
        word = "".join(self._scalar)
        self._scalar.clear()
        self.failed = not is_scalar(word) and not (self._repairs and word in _NOT_JSON)
        written.append(word if is_scalar(word) else _NOT_JSON.get(word, word))
        if not self.failed:
            self._end_value()

    def _end_value(self) -> None:
        self.done = not self._open
        self._next = _Next.COMMA_OR_END
