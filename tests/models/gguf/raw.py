"""GGUF files put together byte by byte, so that any part of them can be wrong."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf.constants import GGUFValueType

U32, I32, F32, BOOL, STRING, ARRAY, U64 = (
    int(kind)
    for kind in (
        GGUFValueType.UINT32,
        GGUFValueType.INT32,
        GGUFValueType.FLOAT32,
        GGUFValueType.BOOL,
        GGUFValueType.STRING,
        GGUFValueType.ARRAY,
        GGUFValueType.UINT64,
    )
)
_CODES = {U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q"}


def number(code: str, value: float) -> bytes:
    """Return a number as the file has it."""
    return struct.pack("<" + code, value)


def text(value: str | bytes) -> bytes:
    """Return a string as the file has it: its length, and its bytes."""
    raw = value if isinstance(value, bytes) else value.encode()
    return number("Q", len(raw)) + raw


def entry(key: str | bytes, kind: int, value: Any) -> bytes:  # noqa: ANN401
    """Return a key and its value, of which a string or a number is encoded, and bytes are as they are."""
    raw = value if isinstance(value, bytes) else text(value) if kind == STRING else number(_CODES[kind], value)
    return text(key) + number("I", kind) + raw


def list_of(kind: int, length: int, raw: bytes) -> bytes:
    """Return a list, that says it has `length` entries."""
    return number("I", kind) + number("Q", length) + raw


def tensor(name: str, dims: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0) -> bytes:
    """Return an entry of the table of tensors; `dims` in the file's order."""
    sizes = b"".join(number("q", size) for size in dims)
    return text(name) + number("I", len(dims)) + sizes + number("I", kind) + number("Q", offset)


@dataclass
class RawFile:
    """A file's parts; counts are those of the lists, if not given."""

    entries: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = bytes(32)
    magic: bytes = b"GGUF"
    version: int = 3
    num_entries: int | None = None
    num_tensors: int | None = None
    alignment: int = 32

    def encoded(self) -> bytes:
        """Return the file's bytes."""
        header = self.magic + number("I", self.version)
        header += number("Q", len(self.tensors) if self.num_tensors is None else self.num_tensors)
        header += number("Q", len(self.entries) if self.num_entries is None else self.num_entries)
        header += b"".join(self.entries) + b"".join(self.tensors)
        return header + bytes(-len(header) % self.alignment) + self.data

    def write(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.encoded())
        return path
