"""JSON values that grow at their end, and can be encoded as often as needed while they do.

The events of a response repeat its texts: whole, in an item, and in the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from web.bodies.json_encoding import SelfEncoding, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

BLOCK = 4096
"""Characters of JSON that are yielded at a time, about."""


class _Blocks:
    """Short strings, joined into blocks as they come."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._rest: list[str] = []
        self._rest_length = 0
        self.length = 0

    def add(self, text: str) -> None:
        self._rest.append(text)
        self._rest_length += len(text)
        self.length += len(text)
        if self._rest_length >= BLOCK:
            self._blocks.append("".join(self._rest))
            self._rest, self._rest_length = [], 0

    def __iter__(self) -> Iterator[str]:
        yield from self._blocks
        if self._rest:
            yield "".join(self._rest)


class GrowingText(SelfEncoding[str]):
    """A string.  Its length is its number of characters."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def __len__(self) -> int:
        """Return the number of characters."""
        return self._blocks.length

    def __str__(self) -> str:
        """Return all of it."""
        return "".join(self._blocks)

    def add(self, text: str) -> None:
        """Add a few characters at the end."""
        self._blocks.add(text)

    def iter_json(self) -> Iterator[bytes]:
        """Yield the string's JSON in fragments."""
        yield b'"'
        for block in self._blocks:
            yield dumps(block)[1:-1].encode()
        yield b'"'


class GrowingArray(SelfEncoding[list[T]]):
    """An array of small values, which are encoded as they come.  Its length is the bytes that they take."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def __len__(self) -> int:
        """Return the number of bytes that the elements take."""
        return self._blocks.length

    def add(self, element: T) -> None:
        """Add an element at the end."""
        self._blocks.add(("," if self._blocks.length else "") + dumps(element))

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array's JSON in fragments."""
        yield b"["
        for block in self._blocks:
            yield block.encode()
        yield b"]"
