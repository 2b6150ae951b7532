"""The text of an answer as it comes, and the parser that a reading of it makes."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.chat.parts import Part

T = TypeVar("T")

Reading = Generator["Part | None", None, T]
"""Yields parts, and None where it needs more text; returns what its caller wants to know."""

WHITESPACE = " \t\r\n"
_SPACES = re.compile(f"[{WHITESPACE}]*")
_FEW_SPACES = re.compile(f"[{WHITESPACE}]{{0,64}}")


class Source:
    """Text of one answer that was not read yet, which is little: readers take what they are sure of.

    Attributes:
        text: what came last.
        at: where in it the next character to be read is.
        ended: nothing follows.
        spaces: whitespace that was read, and that a marker behind it makes meaningless.
        after_marker: nothing but whitespace was read since the last marker, so that means nothing either.
        calls: how many calls have begun.
        cut: a limit has ended the answer, and not the model.
        starved: a reader saw the end of the answer in the middle of what it knows.
    """

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self.spaces: list[str] = []
        self.after_marker = False
        self.calls = 0
        self.cut = False
        self.starved = False
        self._record: list[str] | None = None
        self._came = 0

    @property
    def position(self) -> int:
        """Characters of the answer before the next one to be read."""
        return self._came - len(self.text) + self.at

    def push(self, text: str) -> None:
        """Add text behind what is there."""
        self.text = self.text[self.at :] + text
        self.at = 0
        self._came += len(text)

    def unread(self, text: str) -> None:
        """Take text back that was read."""
        if self.text.endswith(text, 0, self.at):
            self.at -= len(text)
        else:
            self.text = text + self.text[self.at :]
            self.at = 0
        self.starved = False

    def next_call(self) -> int:
        """Return the number of the call that begins."""
        self.calls += 1
        return self.calls - 1

    def take(self, end: int) -> str:
        """Read up to index `end` of `text`."""
        taken = self.text[self.at : end]
        self.at = end
        if self._record is not None:
            self._record.append(taken)
        return taken

    def record(self, begun: str = "") -> None:
        """Keep what is read from here on, for it may turn out to be no call; `begun` is what was read before."""
        self._record = [begun]

    def recorded(self) -> str:
        """Return what was kept, and keep no more."""
        kept, self._record = "".join(self._record or ()), None
        return kept

    def more(self) -> Reading[bool]:
        """Wait for a character; return False where none follows."""
        while self.at == len(self.text):
            if self.ended:
                self.starved = True
                return False
            yield None
        return True

    def skip_spaces(self, into: list[str] | None = None) -> Reading[str]:
        """Read whitespace, and return the character that follows, unread; an empty string at the end.

        Args:
            into: takes the whitespace where it may mean something.
        """
        while (yield from self.more()):
            match = _SPACES.match(self.text, self.at)
            assert match is not None  # it may be empty
            spaces = self.take(match.end())
            if into is not None:
                into.append(spaces)
            if self.at < len(self.text):
                return self.text[self.at]
        return ""

    def accept(self, *literals: str) -> Reading[str]:
        """Read whichever of `literals` comes next, and return it; return an empty string where none does.

        None of them may begin another.
        """
        while True:
            for literal in literals:
                if self.text.startswith(literal, self.at):
                    return self.take(self.at + len(literal))
            left = self.text[self.at : self.at + max(map(len, literals))]
            possible = any(literal.startswith(left) for literal in literals)
            self.starved |= possible and self.ended
            if self.ended or not possible:
                return ""
            yield None

    def close(self, *literals: str) -> Reading[None]:
        """Read the marker that closes a call, or what the answer's end leaves of it, behind whitespace, if it comes."""
        yield from self.skip_spaces()
        if not (yield from self.accept(*literals)) and self.starved:
            self.take(len(self.text))

    def follows(self, *literals: str) -> Reading[str | None]:
        """Look which of `literals` comes next, behind a little whitespace, and return it, unread.

        Returns:
            An empty string where none does; None where the answer ends before that is certain.
        """
        while True:
            spaces = _FEW_SPACES.match(self.text, self.at)
            assert spaces is not None  # it may be empty
            for literal in literals:
                if self.text.startswith(literal, spaces.end()):
                    return literal
            left = self.text[spaces.end() : spaces.end() + max(map(len, literals))]
            if not any(literal.startswith(left) for literal in literals):
                return ""
            if self.ended:
                self.starved = True
                return None
            yield None

    def take_until(self, stops: str, limit: int) -> Reading[str | None]:
        """Read up to one of the characters `stops`, and return what is before it.

        Returns:
            None, with nothing read, where more than `limit` characters come before it, or the text ends.
        """
        pattern = re.compile(f"[{re.escape(stops)}]")
        while True:
            if match := pattern.search(self.text, self.at, self.at + limit + 1):
                return self.take(match.start())
            if self.ended or len(self.text) - self.at > limit:
                self.starved |= self.ended
                return None
            yield None


class ReadingParser:
    """The `OutputParser` of a reading.

    Args:
        read: reads the whole answer, to its end.
    """

    def __init__(self, read: Callable[[Source], Reading[None]]) -> None:
        self._source = Source()
        self._reading = read(self._source)

    @property
    def held(self) -> int:
        """Characters that came and were not read yet."""
        return len(self._source.text) - self._source.at

    def push(self, text: str) -> Sequence[Part]:
        """Read more text; see `OutputParser`."""
        self._source.push(text)
        return self._run()

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Read to the end; see `OutputParser`."""
        self._source.ended = True
        self._source.cut = cut
        return self._run()

    def _run(self) -> list[Part]:
        parts: list[Part] = []
        for part in self._reading:
            if part is None:
                break
            parts.append(part)
        return parts
