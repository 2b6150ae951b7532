"""The header of a GGUF file: magic, version, metadata, and the table of tensors.

The library's own `gguf.GGUFReader` is not used.  It makes two NumPy views of every string: 3 s for the 49,152 tokens of
SmolLM2's file and 14 s for the 262,144 of Gemma 3's, on a machine where this module takes 0.05 and 0.12 s.  And it
believes what a file says of its own lengths, so that a few bytes can make it loop without end.

Here every length is compared with what is left of the file before anything of that length is read or allocated.  There
are limits on the header's size, on how many keys, tensors and entries of lists there may be, and lists of lists, which
no known key has, are refused.

Source: ggml's docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGMLQuantizationType,
    GGUFValueType,
    Keys,
)

from runtime.checkpoint.gguf.metadata import Metadata
from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MAX_HEADER = 256 << 20  # bytes; the largest vocabularies take 12 million
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_ENTRIES = 1 << 22  # of all lists together; vocabularies have up to 262,144 tokens, and twice as many merges
MAX_DIMS = 4  # ggml's
VERSIONS = (2, 3)

_NUMBERS = {  # struct's codes; NumPy has the same
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "B",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
_TYPES = {int(kind): kind for kind in GGUFValueType}
_TENSOR_TYPES = {int(kind): kind for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES}
_ALIGNMENT: str = Keys.General.ALIGNMENT


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as the header describes it.

    Attributes:
        path: the file that it is in.
        name: in the file.
        kind: the type of its numbers.
        shape: PyTorch's order, the reverse of the file's.
        offset: of its first byte, from the file's beginning.
        num_bytes: its size.
    """

    path: Path
    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """Contents of one file's header: its metadata, and its tensors by name in the file's order."""

    metadata: Metadata
    tensors: Mapping[str, TensorEntry]


def read_header(path: Path) -> Header:
    """Read the header of one file.

    Raises:
        CheckpointError: the file cannot be read, is no GGUF file of version 2 or 3, or is malformed.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise unreadable(path, "GGUF file", error) from error


class _Reader:
    """Reads a header from its beginning to its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._end = min(len(data), MAX_HEADER)
        self._position = 0
        self._entries = 0  # of all lists up to here

    def header(self) -> Header:
        """Read everything."""
        self._check_version()
        num_tensors = self._number("Q", "the number of tensors")
        num_keys = self._number("Q", "the number of keys")
        if num_tensors > MAX_TENSORS or num_keys > MAX_KEYS:
            raise self._error(f"{num_tensors} tensors and {num_keys} keys are more than a model has")
        values: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._string("a key")
            if key in values:
                raise self._error(f"{key} is there twice")
            values[key] = self._value(key)
        metadata = Metadata(str(self._path), values)
        alignment = _alignment(metadata)
        entries = [self._tensor() for _ in range(num_tensors)]
        return Header(metadata, self._placed(entries, -(-self._position // alignment) * alignment, alignment))

    def _check_version(self) -> None:
        magic, version = self._number("I", "the magic number"), self._number("I", "the version")
        if magic != GGUF_MAGIC:
            raise unreadable(self._path, "GGUF file", ValueError("it begins otherwise"))
        if version & 0xFFFF == 0:
            raise self._error("is big-endian, and only little-endian files are read")
        if version not in VERSIONS:
            raise self._error(f"is of version {version} of GGUF, and versions {VERSIONS[0]} and {VERSIONS[1]} are read")

    # --- metadata ---------------------------------------------------------------------------------------------------

    def _value(self, key: str) -> Any:  # noqa: ANN401
        kind = self._type(key)
        if kind is GGUFValueType.ARRAY:
            return self._list(key)
        if kind is GGUFValueType.STRING:
            return self._string(key)
        value = self._number(_NUMBERS[kind], key)
        if kind is GGUFValueType.BOOL:
            if value > 1:
                raise self._error(f"{key} is {value}, which is neither false nor true")
            return bool(value)
        # The shortest decimal of a float32 is what its writer had: 1e-05, and not 9.999999747378752e-06.
        return float(str(np.float32(value))) if kind is GGUFValueType.FLOAT32 else value

    def _type(self, key: str) -> GGUFValueType:
        number = self._number("I", key)
        if number not in _TYPES:
            raise self._error(f"{key} has the unknown type {number}")
        return _TYPES[number]

    def _list(self, key: str) -> list[Any]:
        kind, length = self._type(key), self._number("Q", key)
        self._entries += length
        if self._entries > MAX_ENTRIES:
            raise self._error(f"{key} has {length} entries, more than any model's")
        if kind is GGUFValueType.ARRAY:
            raise self._error(f"{key} is a list of lists, which no known key is")
        if kind is GGUFValueType.STRING:
            return self._strings(key, length)
        dtype = np.dtype("?" if kind is GGUFValueType.BOOL else _NUMBERS[kind]).newbyteorder("<")
        start = self._advance(length * dtype.itemsize, key)
        values: list[Any] = np.frombuffer(self._data[start : self._position], dtype).tolist()
        return values

    def _strings(self, key: str, length: int) -> list[str]:
        """Read a list of strings in one loop, for vocabularies are long."""
        data, position, end = self._data, self._position, self._end
        read_length = struct.Struct("<Q").unpack_from
        strings = []
        for _ in range(length):
            start = position + 8
            if start > end:
                raise self._ends_within(key)
            position = start + read_length(data, position)[0]
            if position > end:
                raise self._ends_within(key)
            strings.append(data[start:position])
        self._position = position
        try:
            return [str(string, "utf-8") for string in strings]
        except UnicodeDecodeError as error:
            raise self._error(f"{key} has an entry that is not UTF-8") from error

    # --- tensors ----------------------------------------------------------------------------------------------------

    def _tensor(self) -> TensorEntry:
        """Read an entry of the table; its offset is still that from the beginning of all data."""
        name = self._string("a tensor's name")
        num_dims = self._number("I", name)
        if not 1 <= num_dims <= MAX_DIMS:
            raise self._error(f"{name} has {num_dims} dimensions, and 1 to {MAX_DIMS} are possible")
        shape = tuple(self._number("q", name) for _ in range(num_dims))[::-1]
        number, offset = self._number("I", name), self._number("Q", name)
        if number not in _TENSOR_TYPES:
            raise self._error(f"{name} is of the unknown type {number}")
        kind = _TENSOR_TYPES[number]
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if min(shape) < 1:
            raise self._error(f"{name} has the impossible shape {list(shape)}")
        if shape[-1] % block:
            raise self._error(f"{name} has rows of {shape[-1]} numbers, and {kind.name} has blocks of {block}")
        return TensorEntry(self._path, name, kind, shape, offset, math.prod(shape) // block * block_bytes)

    def _placed(self, entries: Iterable[TensorEntry], data_start: int, alignment: int) -> dict[str, TensorEntry]:
        """Return the entries with their place in the file, which no two may share."""
        placed: dict[str, TensorEntry] = {}
        for entry in entries:
            name, offset = entry.name, data_start + entry.offset
            if name in placed:
                raise self._error(f"{name} is there twice")
            if entry.offset % alignment:
                raise self._error(f"{name} is not aligned to {alignment} bytes")
            if offset + entry.num_bytes > len(self._data):
                missing = offset + entry.num_bytes - len(self._data)
                raise self._error(f"{name} ends {missing} bytes behind the end of the file, which may be cut short")
            placed[name] = TensorEntry(entry.path, name, entry.kind, entry.shape, offset, entry.num_bytes)
        end = 0
        for entry in sorted(placed.values(), key=lambda entry: entry.offset):
            if entry.offset < end:
                raise self._error(f"{entry.name} overlaps another tensor")
            end = entry.offset + entry.num_bytes
        return placed

    # --- numbers and strings ----------------------------------------------------------------------------------------

    def _advance(self, size: int, what: str) -> int:
        """Return the position, and go on by `size` bytes, if the file has them."""
        start = self._position
        if size > self._end - start:
            raise self._ends_within(what)
        self._position = start + size
        return start

    def _number(self, code: str, what: str) -> Any:  # noqa: ANN401
        start = self._advance(struct.calcsize(code), what)
        return struct.unpack_from("<" + code, self._data, start)[0]

    def _string(self, what: str) -> str:
        start = self._advance(self._number("Q", what), what)
        try:
            return str(self._data[start : self._position], "utf-8")
        except UnicodeDecodeError as error:
            raise self._error(f"{what} is not UTF-8") from error

    def _ends_within(self, what: str) -> CheckpointError:
        if self._end == MAX_HEADER:
            return self._error(f"its header is longer than {MAX_HEADER >> 20} MiB, which no model's is ({what})")
        return self._error(f"ends within {what}: it is cut short or broken")

    def _error(self, why: str) -> CheckpointError:
        return CheckpointError(f"{self._path}: {why}")


def _alignment(metadata: Metadata) -> int:
    """Return to how many bytes tensors are aligned."""
    alignment = metadata.find(_ALIGNMENT, int)
    if alignment is None:
        return int(GGUF_DEFAULT_ALIGNMENT)
    if alignment <= 0 or alignment & (alignment - 1):
        raise metadata.invalid(_ALIGNMENT, f"is {alignment}, which is no power of two")
    return alignment
