"""Parts as those APIs need them whose calls come whole, or whose text is one string."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments, CallEnd, CallStart, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.chat.parts import Part


class WholeCalls:
    """Holds each call back until it is whole.  Its length is the characters that it holds.

    A broken call cannot be shown where arguments are an object: nobody should run it.  It is text then.
    """

    def __init__(self) -> None:
        self._start: CallStart | None = None  # of the call that is held
        self._pieces: list[str] = []
        self._length = 0
        self._said = False  # a text came

    def __len__(self) -> int:
        """Return the number of characters that are held."""
        return self._length

    def of(self, parts: Iterable[Part], *, last: bool) -> Iterator[Part]:
        """Yield what can be shown now; `last` says that no more parts follow."""
        for part in parts:
            match part:
                case CallArguments(_, text) if self._start is not None:
                    self._pieces.append(text)
                    self._length += len(text)
                    continue
                case CallEnd(call) if self._start is not None:
                    yield self._start
                    yield CallArguments(call, "".join(self._pieces) or "{}")
                    self._start = None
                case _ if self._start is not None:
                    yield self._broken(self._start)
            self._pieces.clear()
            self._length = 0
            if isinstance(part, CallStart):
                self._start = part
            else:
                self._said = self._said or isinstance(part, TextPart)
                yield part
        if last and self._start is not None:
            yield self._broken(self._start)

    def _broken(self, start: CallStart) -> TextPart:
        """Return a broken call as text; what the model wrote behind it follows."""
        line = "\n" if self._said else ""
        self._said, self._start = True, None
        return TextPart(f'{line}{{"name": {json.dumps(start.name)}, "arguments": {"".join(self._pieces)}')


class OneText:
    """Puts a line break between texts that a call stands between, where an API has one string for all of them."""

    def __init__(self) -> None:
        self._said = False
        self._called = False

    def of(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts of an answer."""
        for part in parts:
            if isinstance(part, CallStart):
                self._called = True
            if isinstance(part, TextPart) and part.text:
                yield TextPart(f"\n{part.text}") if self._said and self._called else part
                self._said, self._called = True, False
            else:
                yield part
