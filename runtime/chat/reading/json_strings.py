"""Text of a JSON string, as it comes, and of the inputs of custom tools, which are such strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments, CallEnd, CallStart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from runtime.chat.parts import OutputParser, Part

_RUN = re.compile(r'[^"\\]+')
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

INPUT = "input"
"""The one argument of a custom tool, as the model sees it."""


class JsonString:
    """Decodes a valid JSON string, opening quote included.

    Attributes:
        done: the closing quote was read.
    """

    def __init__(self) -> None:
        self.done = False
        self._opened = False
        self._escape = ""  # what came of an escape
        self._high = ""  # the first half of a surrogate pair

    def feed(self, text: str, at: int = 0) -> tuple[int, str]:
        """Go on at index `at`; return the index behind the string, and what it says."""
        said: list[str] = []
        if not self._opened and at < len(text):
            self._opened = True
            at += 1
        while at < len(text) and not self.done:
            run = None if self._escape else _RUN.match(text, at)
            if run is not None:
                said += [self._broken_pair(), run[0]]
                at = run.end()
                continue
            said.append(self._take(text[at]))
            at += 1
        return at, "".join(said)

    def _take(self, char: str) -> str:
        """Take a quote, a backslash, or what is behind one."""
        if not self._escape:
            self.done = char == '"'
            self._escape = "" if self.done else char
            return self._broken_pair() if self.done else ""
        self._escape += char
        if self._escape.startswith("\\u"):
            return self._unit(int(self._escape[2:], 16)) if len(self._escape) == 6 else ""
        self._escape = ""
        return self._broken_pair() + _ESCAPES.get(char, char)

    def _unit(self, unit: int) -> str:
        """Take a UTF-16 code unit; a pair of surrogates is one character."""
        self._escape = ""
        if self._high and 0xDC00 <= unit < 0xE000:
            high, self._high = ord(self._high), ""
            return chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
        lead = self._broken_pair()
        if 0xD800 <= unit < 0xDC00:
            self._high = chr(unit)
            return lead
        return lead + ("\N{REPLACEMENT CHARACTER}" if 0xDC00 <= unit < 0xE000 else chr(unit))

    def _broken_pair(self) -> str:
        """Return U+FFFD where half of a pair stands alone, for text cannot hold it."""
        if not self._high:
            return ""
        self._high = ""
        return "\N{REPLACEMENT CHARACTER}"


class CustomInputs:
    """A parser whose calls of custom tools have their input as it is, and not as JSON.

    Args:
        parser: of the model's format, in which such a tool is a function with one argument, `input`.
        names: of the custom tools.
    """

    def __init__(self, parser: OutputParser, names: Collection[str]) -> None:
        self._parser = parser
        self._names = names
        self._inputs: dict[int, _Input] = {}

    def push(self, text: str) -> Sequence[Part]:
        """Take more text; see `OutputParser`."""
        return self._unwrapped(self._parser.push(text))

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return what was held back; see `OutputParser`."""
        parts = self._unwrapped(self._parser.finish(cut=cut))
        rest = [CallArguments(call, text) for call, held in self._inputs.items() if (text := held.finish())]
        return [*parts, *rest]

    def _unwrapped(self, parts: Sequence[Part]) -> list[Part]:
        unwrapped: list[Part] = []
        for part in parts:
            if isinstance(part, CallStart) and part.name in self._names:
                self._inputs[part.call] = _Input()
            if isinstance(part, CallArguments) and part.call in self._inputs:
                text = self._inputs[part.call].feed(part.text)
            elif isinstance(part, CallEnd) and part.call in self._inputs:
                text = self._inputs.pop(part.call).finish()
            else:
                unwrapped.append(part)
                continue
            if text:
                unwrapped.append(CallArguments(part.call, text))
            if isinstance(part, CallEnd):
                unwrapped.append(part)
        return unwrapped


class _Input:
    """The input of one custom tool's call.  Arguments of another shape are given as they are."""

    _LEAD = re.compile(r'\s*\{\s*"' + INPUT + r'"\s*:\s*(?=")')
    _LONGEST_LEAD = 64

    def __init__(self) -> None:
        self._held = ""
        self._string: JsonString | None = None
        self._other = False

    def feed(self, text: str) -> str:
        if self._other:
            return text
        if self._string is None:
            self._held += text
            lead = self._LEAD.match(self._held)
            if lead is None:
                self._other = len(self._held) > self._LONGEST_LEAD
                return self.finish() if self._other else ""
            self._string = JsonString()
            text, self._held = self._held[lead.end() :], ""
        return self._string.feed(text)[1]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held
