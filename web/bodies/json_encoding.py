"""JSON encoded in small steps, so that other tasks can run while a long value becomes bytes.

Everything in here is pure: values in, bytes out.  Who iterates lets other tasks run between two fragments
(`web.bodies.responses`, `web.bodies.event_stream`).
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, get_args

from pydantic import GetPydanticSchema
from typing_extensions import TypeVar

from web.bodies.page_buffer import PageBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T", default=object)
ValueT = TypeVar("ValueT", default=object, covariant=True)


def _fields(value: object) -> dict[str, object]:
    """Return the fields of a dataclass, as which it is written: it is one of the answers, as it is."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} is no JSON")


_encoder = json.JSONEncoder(separators=(",", ":"), default=_fields)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")

BLOCK = 4096
"""Characters of a string, or numbers of an array, that are encoded at a time: at most 48 KiB, in a fraction of a ms."""

ENCODED_BLOCK = 16 * 1024
"""Bytes of a value that is encoded already that are handed on at a time."""


FRAGMENT = 64
"""Bytes that a fragment counts at least, where others have their turn by how much was encoded: a short one takes as
long to make and to take as so many."""


def dumps(value: object) -> str:
    """Encode `value` as compact JSON, in plain ASCII: no line separator or lone surrogate can upset an event stream.

    A dataclass becomes an object of its fields.
    """
    return _encoder.encode(value)


def iter_json(value: object) -> Iterator[bytes]:
    """Encode `value` as compact JSON, in fragments none of which takes long to make.

    Objects and arrays may hold `SelfEncoding` values.  An array that begins with a number must hold numbers only.
    What an iterator yields is made when its turn comes, and has to be small.
    """
    if isinstance(value, SelfEncoding):
        yield from value.iter_json()
    elif isinstance(value, dict):
        yield from _object(value)
    elif isinstance(value, list | tuple):
        yield from _array(value)
    elif isinstance(value, str):
        yield from _string(value)
    elif isinstance(value, Iterator):
        yield from LazyJsonArray(value).iter_json()
    else:
        yield dumps(value).encode()


class SelfEncoding(ABC, Generic[ValueT]):
    """A JSON value of this type that encodes itself, once: what has become bytes is dropped from it."""

    @abstractmethod
    def iter_json(self) -> Iterator[bytes]:
        """Yield the value's JSON in fragments."""


class EncodedJson(SelfEncoding[T]):
    """A value that was encoded before; it can be handed on as often as needed.

    Args:
        encoded: its JSON.
    """

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded

    def iter_json(self) -> Iterator[bytes]:
        """Yield the value's JSON in fragments."""
        for start in range(0, len(self._encoded), ENCODED_BLOCK):
            yield self._encoded[start : start + ENCODED_BLOCK]


class RawJson(SelfEncoding[Any]):
    """A value that is JSON already, and becomes one line, in plain ASCII as by `dumps`.

    Args:
        text: its JSON; line breaks within its strings are escaped, as JSON has it.
    """

    _SPACES = str.maketrans("\r\n", "  ")

    def __init__(self, text: str) -> None:
        self._text = text.translate(self._SPACES)

    def __len__(self) -> int:
        """Return the number of bytes that the text takes."""
        return len(self._text.encode(errors="replace"))

    def add(self, text: str) -> None:
        """Add characters at the end; those of a whole value are best added at once."""
        self._text += text.translate(self._SPACES)

    def iter_json(self) -> Iterator[bytes]:
        """Yield the value's JSON in fragments."""
        for start in range(0, len(self._text), BLOCK):
            yield _NOT_ASCII.sub(lambda found: dumps(found[0])[1:-1], self._text[start : start + BLOCK]).encode()


class JsonStringBuilder(SelfEncoding[str]):
    """A string that is encoded as it grows.  Its length is the number of bytes that its encoded part takes.

    Args:
        page_bytes: of a page of the buffer.
        prefix: text before all that is added; encoded last.
    """

    def __init__(self, page_bytes: int, prefix: str = "") -> None:
        self._prefix = prefix
        self._encoded = PageBuffer(page_bytes)

    def __len__(self) -> int:
        """Return the number of bytes that the encoded part takes."""
        return len(self._encoded)

    def add(self, text: str) -> None:
        """Add a few characters at the end."""
        self._encoded.write(dumps(text)[1:-1].encode())

    def iter_json(self) -> Iterator[bytes]:
        """Yield the string's JSON in fragments."""
        yield b'"'
        yield from _characters(self._prefix)
        yield from iter(self._encoded.take, b"")
        yield b'"'


class JsonArrayBuilder(SelfEncoding[list[T]]):
    """An array that is encoded as it grows.  Its length is the number of bytes that its elements take.

    Args:
        page_bytes: of a page of the buffer.
    """

    def __init__(self, page_bytes: int) -> None:
        self._encoded = PageBuffer(page_bytes)

    def __len__(self) -> int:
        """Return the number of bytes that the elements take."""
        return len(self._encoded)

    def add(self, element: T) -> None:
        """Add a small element at the end."""
        separator = b"," if self._encoded else b""
        self._encoded.write(separator + dumps(element).encode())

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array's JSON in fragments."""
        yield b"["
        yield from iter(self._encoded.take, b"")
        yield b"]"


class LazyJsonArray(SelfEncoding[list[T]]):
    """An array of small values, each of which is made when its turn to be encoded comes.

    Args:
        values: iterated once.
    """

    def __init__(self, values: Iterable[T]) -> None:
        self._values = values

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array's JSON, an element at a time."""
        separator = "["
        for value in self._values:
            yield f"{separator}{dumps(value)}".encode()
            separator = ","
        yield b"]" if separator == "," else b"[]"


def _object(fields: dict[str, object]) -> Iterator[bytes]:
    separator = "{"
    for name, value in fields.items():
        yield f"{separator}{dumps(name)}:".encode()
        yield from iter_json(value)
        separator = ","
    yield b"}" if fields else b"{}"


def _array(elements: list[object] | tuple[object, ...]) -> Iterator[bytes]:
    if not elements or not isinstance(elements[0], int):
        separator = "["
        for element in elements:
            yield separator.encode()
            yield from iter_json(element)
            separator = ","
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


# --- types of what answers are made of, for `TypedDict`s that are written, and of which the OpenAPI document is made --

LongT = TypeVar("LongT")

Long = Annotated[LongT | SelfEncoding[LongT], GetPydanticSchema(lambda source, handler: handler(get_args(source)[0]))]
"""A value that may be long, and so may encode itself; the document shows the value: `Long[str]`, `Long[list[int]]`."""

JsonObject: TypeAlias = Mapping[str, object]
"""Any object that is written, for whoever only hands it on: all `TypedDict`s are such."""
