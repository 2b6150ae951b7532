"""Where a JSON value ends, in a text that comes in pieces."""

from __future__ import annotations

import enum
import json
import re

_RUN = re.compile(r'[^"\\\x00-\x1f]+')  # of a string
_SPACES = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_SCALAR_FIRST = frozenset("-0123456789tfn")
_HEX = frozenset("0123456789abcdefABCDEF")
_CLOSING = {"{": "}", "[": "]"}


def is_scalar(text: str) -> bool:
    """Whether a text is a number of JSON, or one of its three words."""
    return _SCALAR.fullmatch(text) is not None


class _Next(enum.Enum):
    """What may come next outside of strings."""

    VALUE = enum.auto()
    VALUE_OR_END = enum.auto()  # of an array
    KEY = enum.auto()
    KEY_OR_END = enum.auto()
    COLON = enum.auto()
    COMMA_OR_END = enum.auto()


class JsonScanner:
    """Follows one JSON value (RFC 8259) to its end; each character is looked at once.

    Raw control characters within strings, which models write and JSON forbids, are escaped.

    Attributes:
        done: the value is whole.
        failed: it is no JSON.
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = False
        self._open: list[str] = []  # brackets
        self._next = _Next.VALUE
        self._in_string = False
        self._in_key = False
        self._escape = 0  # hexadecimal digits that are to come; -1 behind a backslash
        self._scalar: list[str] = []

    def feed(self, text: str, at: int) -> tuple[int, str]:
        """Go on at index `at`; return the index behind what belongs to the value, and how that is to be written."""
        written: list[str] = []
        while at < len(text) and not self.done and not self.failed:
            at = self._string(text, at, written) if self._in_string else self._structure(text, at, written)
        return at, "".join(written)

    def finish(self) -> None:
        """Note that no text follows: a number at the top ends there, and what is not whole has failed."""
        if self._scalar:
            self._end_scalar()
        self.failed = not self.done

    def _string(self, text: str, at: int, written: list[str]) -> int:
        char = text[at]
        if self._escape:
            return self._escaped(char, at, written)
        if run := _RUN.match(text, at):
            written.append(run[0])
            return run.end()
        if char == '"':
            self._in_string = False
            if self._in_key:
                self._next = _Next.COLON
            else:
                self._end_value()
        elif char == "\\":
            self._escape = -1
        else:
            char = json.dumps(char)[1:-1]
        written.append(char)
        return at + 1

    def _escaped(self, char: str, at: int, written: list[str]) -> int:
        if self._escape == -1 and char in '"\\/bfnrtu':
            self._escape = 4 if char == "u" else 0
        elif self._escape > 0 and char in _HEX:
            self._escape -= 1
        else:
            self.failed = True
            return at
        written.append(char)
        return at + 1

    def _structure(self, text: str, at: int, written: list[str]) -> int:
        run = _WORD.match(text, at) if self._scalar or text[at] in _SCALAR_FIRST else None
        if run is not None and (self._scalar or self._next in (_Next.VALUE, _Next.VALUE_OR_END)):
            self._scalar.append(run[0])
        elif self._scalar:
            self._end_scalar()
            return at
        elif (run := _SPACES.match(text, at)) is None:
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

    def _end_scalar(self) -> None:
        if is_scalar("".join(self._scalar)):
            self._scalar.clear()
            self._end_value()
        else:
            self.failed = True

    def _end_value(self) -> None:
        self.done = not self._open
        self._next = _Next.COMMA_OR_END
