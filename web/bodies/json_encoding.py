"""JSON in pieces: what is long becomes bytes bit by bit, so that others run while it is made, and is sent in pages.

Pure: bytes out for values in.  Whoever drives it lets others run between two pieces (`web.bodies.paged_response`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_encoder = json.JSONEncoder(separators=(",", ":"))

BLOCK = 4096
"""Characters of a string, or numbers of an array, that are encoded at a time: 48 KiB at most, in a fraction of a ms."""


def dumps(value: object) -> str:
    """Compact JSON.  Plain ASCII, so that no line separator or lone surrogate can upset an event stream."""
    return _encoder.encode(value)


class PageBuffer:
    """Bytes that grow at one end and are taken at the other, a page at a time.

    Args:
        size: of a page, in bytes; only the last may be shorter.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._full: deque[bytes] = deque()
        self._last = bytearray()
        self._length = 0

    def __len__(self) -> int:
        """Bytes that were written and not yet taken."""
        return self._length

    def write(self, data: bytes) -> None:
        """Add `data` at the end."""
        self._last += data
        self._length += len(data)
        while len(self._last) >= self._size:
            self._full.append(bytes(self._last[: self._size]))
            del self._last[: self._size]

    def take(self) -> bytes:
        """The next page, empty where there is none."""
        page = self._full.popleft() if self._full else bytes(self._last)
        if len(page) < self._size:
            self._last.clear()
        self._length -= len(page)
        return page

    def clear(self) -> None:
        """Drop everything."""
        self._full.clear()
        self._last.clear()
        self._length = 0


class SelfEncoding(ABC):
    """A JSON value that comes as bytes, once: it is let go piece by piece."""

    @abstractmethod
    def pieces(self) -> Iterator[bytes]:
        """The bytes."""


class JsonStringBuilder(SelfEncoding):
    """A string, to which text is added; `before` stands before all of it, and is encoded last."""

    def __init__(self, page: int, before: str = "") -> None:
        self._before = before
        self._pages = PageBuffer(page)

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, text: str) -> None:
        """Add a few characters."""
        self._pages.write(dumps(text)[1:-1].encode())

    def pieces(self) -> Iterator[bytes]:
        yield b'"'
        yield from _characters(self._before)
        yield from iter(self._pages.take, b"")
        yield b'"'


class JsonArrayBuilder(SelfEncoding):
    """An array, to which elements are added."""

    def __init__(self, page: int) -> None:
        self._pages = PageBuffer(page)

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, element: object) -> None:
        """Add an element, a small one."""
        separator = b"," if self._pages else b""
        self._pages.write(separator + dumps(element).encode())

    def pieces(self) -> Iterator[bytes]:
        yield b"["
        yield from iter(self._pages.take, b"")
        yield b"]"


class LazyJsonArray(SelfEncoding):
    """An array of small values, each made when its turn comes."""

    def __init__(self, values: Iterable[object]) -> None:
        self._values = values

    def pieces(self) -> Iterator[bytes]:
        separator = "["
        for value in self._values:
            yield f"{separator}{dumps(value)}".encode()
            separator = ","
        yield b"]" if separator == "," else b"[]"


def iter_json(value: object) -> Iterator[bytes]:
    """Compact JSON of `value`, in pieces none of which takes long to make.

    Objects and arrays may hold `SelfEncoding` values.  An array that begins with a number holds numbers only.
    """
    if isinstance(value, SelfEncoding):
        yield from value.pieces()
    elif isinstance(value, dict):
        yield from _object(value)
    elif isinstance(value, list | tuple):
        yield from _array(value)
    elif isinstance(value, str):
        yield from _string(value)
    else:
        yield dumps(value).encode()


def _object(fields: dict[str, object]) -> Iterator[bytes]:
    before = "{"
    for name, value in fields.items():
        yield f"{before}{dumps(name)}:".encode()
        yield from iter_json(value)
        before = ","
    yield b"}" if fields else b"{}"


def _array(elements: list[object] | tuple[object, ...]) -> Iterator[bytes]:
    if not elements or not isinstance(elements[0], int):
        before = "["
        for element in elements:
            yield before.encode()
            yield from iter_json(element)
            before = ","
        yield b"]" if elements else b"[]"
        return
    for start in range(0, len(elements), BLOCK):
        yield b"," if start else b"["
        yield dumps(elements[start : start + BLOCK])[1:-1].encode()
    yield b"]"


def _string(text: str) -> Iterator[bytes]:
    yield b'"'
    yield from _characters(text)
    yield b'"'


def _characters(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), BLOCK):
        yield dumps(text[start : start + BLOCK])[1:-1].encode()
