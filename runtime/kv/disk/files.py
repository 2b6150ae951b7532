"""One block as one safetensors file: its bytes, and what is checked before they are believed.

    8 bytes   length of the header, always 4088
    4088      JSON, padded with spaces: the tensor "kv", and as metadata version, root, key, parent, tokens, checksum,
              and private if it is
    the rest  the tensor

so that every block of a model makes a file of one size, or of one of two where some layers' rows may be missing, and
the rows begin at a page.  The state of recurrent layers behind a block is one, too, of a size of its own, without
tokens.  The safetensors library reads
these files; here they are read and written by hand, because it takes paths, not descriptors: it would follow links and
cannot sync, its reader maps the file (a truncation by someone else would be a SIGBUS), and its writer to memory copies
the tensor under the GIL.  One `open`, one copy, and every check is made on the very bytes that are used.

Paths are a folder's descriptor and a name, so that nobody can swap the folder in between.  Torch is not imported.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.kv.blocks import BLOCK_TOKENS, KEY_BYTES, BlockKey, block_key, state_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

FORMAT_VERSION = 1
HEADER_BYTES = 4096
SUFFIX, TEMPORARY = ".safetensors", ".tmp"
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "U8": 1}  # by safetensors' names
STATE_KIND = "U8"

_ROW_WORDS = 512  # of 8 bytes: a page
_CACHED_ROWS = 64  # 256 KiB: a core's cache still holds them when they are summed a second time (bench/LOG.md)


class BadBlockFile(Exception):
    """A file that cannot be used; `str(error)` says why.

    Args:
        reason: one word, for counting.
        detail: the message.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    @property
    def worthless(self) -> bool:
        """The file is a block file that nobody can ever use; else it may be someone else's, or become readable."""
        return self.reason not in ("missing", "unreadable", "irregular", "version")


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Layout of the tensors of one model's blocks.

    Attributes:
        kind: the dtype, by safetensors' name.
        shape: `[pieces, parts, kv_heads, BLOCK_TOKENS, dim]`; `[bytes]` of a state.
    """

    kind: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one tensor."""
        return math.prod(self.shape) * ITEM_BYTES[self.kind]

    @property
    def file_bytes(self) -> int:
        """Bytes of one file."""
        return HEADER_BYTES + self.nbytes


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """Header of a file, about its tensor."""

    root: BlockKey
    key: BlockKey
    parent: BlockKey
    token_ids: tuple[int, ...]
    layout: BlockLayout
    checksum: str
    private: bool = False


# --- names --------------------------------------------------------------------------------------------------------


def block_name(key: BlockKey, parent: BlockKey) -> str:
    """Return the name of a block's file.  It names the parent too, so that a listing shows the chains."""
    return f"{key.hex()}-{parent.hex()}{SUFFIX}"


def parse_name(name: str) -> tuple[BlockKey, BlockKey] | None:
    """Return key and parent from a name; None where it is not one of `block_name`."""
    try:
        key, parent = (bytes.fromhex(part) for part in name.removesuffix(SUFFIX).split("-"))
    except ValueError:
        return None
    return (key, parent) if len(key) == len(parent) == KEY_BYTES and block_name(key, parent) == name else None


# --- contents -----------------------------------------------------------------------------------------------------


def checksum(data: Bytes) -> str:
    """Return the SHA-256 over the sums of the data's pages and the sums of their columns, in 64-bit words.

    SHA-256 reads 1 GB/s and CRC-32 3.5, but a warm page cache delivers 5 to 10; sums read 20 (bench/LOG.md).  Whatever
    changes in fewer than four words is seen for certain; to hide, a change must cancel to zero modulo 2**64 in every
    page and in every column that it touches, and pages cannot trade places.  It guards against accidents, not against
    forgery: who can write in the folder can write a fitting checksum too.
    """
    whole = data.size // (8 * _ROW_WORDS) * 8 * _ROW_WORDS
    rows = data[:whole].view("<u8").reshape(-1, _ROW_WORDS)
    of_columns, of_rows = np.zeros(_ROW_WORDS, "<u8"), np.empty(len(rows), "<u8")
    for start in range(0, len(rows), _CACHED_ROWS):
        part = rows[start : start + _CACHED_ROWS]
        np.add.reduce(part, axis=1, out=of_rows[start : start + _CACHED_ROWS])
        of_columns += np.add.reduce(part, axis=0)
    digest = hashlib.sha256(struct.pack("<Q", data.size))
    digest.update(of_columns.tobytes() + of_rows.tobytes() + data[whole:].tobytes())
    return digest.hexdigest()


def encode_header(header: BlockHeader) -> bytes:
    """Return the first `HEADER_BYTES` of a file."""
    metadata = {
        "version": str(FORMAT_VERSION),
        "root": header.root.hex(),
        "key": header.key.hex(),
        "parent": header.parent.hex(),
        "tokens": ",".join(map(str, header.token_ids)),
        "checksum": header.checksum,
    }
    if header.private:
        metadata["private"] = "yes"
    layout = header.layout
    tensor = {"dtype": layout.kind, "shape": list(layout.shape), "data_offsets": [0, layout.nbytes]}
    text = json.dumps({"__metadata__": metadata, "kv": tensor}, separators=(",", ":")).encode()
    assert len(text) <= HEADER_BYTES - 8
    return struct.pack("<Q", HEADER_BYTES - 8) + text.ljust(HEADER_BYTES - 8)


def decode_header(encoded: bytes) -> BlockHeader:
    """Read `HEADER_BYTES` that may be anything.

    Raises:
        BadBlockFile: they are no header, or one of another version, which is said before all else.
    """
    (length,) = struct.unpack("<Q", encoded[:8].ljust(8, b"\0"))
    try:
        parts = json.loads(encoded[8 : 8 + length])
        metadata, tensor = parts["__metadata__"], parts["kv"]
        version = int(metadata["version"])
        if version == FORMAT_VERSION and length == HEADER_BYTES - 8 and len(encoded) == HEADER_BYTES:
            return _header(metadata, tensor)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadBlockFile("header", "its header is not that of a block") from error
    if version != FORMAT_VERSION:
        raise BadBlockFile("version", f"it is of format version {version}, this is {FORMAT_VERSION}")
    raise BadBlockFile("header", "its header is cut short")


def _header(metadata: dict[str, str], tensor: dict[str, Any]) -> BlockHeader:
    layout = BlockLayout(tensor["dtype"], tuple(map(int, tensor["shape"])))
    if tensor["data_offsets"] != [0, layout.nbytes]:
        raise ValueError(tensor["data_offsets"])
    return BlockHeader(
        root=bytes.fromhex(metadata["root"]),
        key=bytes.fromhex(metadata["key"]),
        parent=bytes.fromhex(metadata["parent"]),
        token_ids=tuple(map(int, metadata["tokens"].split(","))) if metadata["tokens"] else (),
        layout=layout,
        checksum=metadata["checksum"],
        private="private" in metadata,
    )


# --- files --------------------------------------------------------------------------------------------------------


def read_header(folder: int, name: str) -> BlockHeader:
    """Read the header alone, for listings: nothing in it has been checked.

    Raises:
        BadBlockFile: there is none.
    """
    with _opened(folder, name) as (file, _):
        return decode_header(os.read(file, HEADER_BYTES))


def read_block(
    folder: int, name: str, *, root: BlockKey, layouts: Collection[BlockLayout] = ()
) -> tuple[BlockHeader, Bytes]:
    """Read one file and verify its contents; without any `layouts` all are accepted.

    Raises:
        BadBlockFile: the file cannot be used.
    """
    with _opened(folder, name) as (file, size):
        header = decode_header(os.read(file, HEADER_BYTES))
        _check_header(header, name, root)
        if layouts and header.layout not in layouts:
            raise BadBlockFile("layout", f"it holds {header.layout.kind} {list(header.layout.shape)}")
        if size != header.layout.file_bytes:
            raise BadBlockFile("size", f"it has {size} bytes, not {header.layout.file_bytes}")
        data = np.empty(header.layout.nbytes, np.uint8)
        _read_into(file, data.data)
    if checksum(data) != header.checksum:
        raise BadBlockFile("checksum", "its checksum does not fit its contents")
    return header, data


def write_temporary(folder: int, header: BlockHeader, data: Bytes, *, stamp: int) -> str:
    """Write a whole file under a name of its own, with the modification time `stamp` (ns), and sync it.

    Returns:
        The name, for the caller to rename.

    Raises:
        OSError: the disk refused; nothing is left behind.
    """
    name = f"{header.key.hex()}{TEMPORARY}"
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        try:
            _write_all(file, memoryview(encode_header(header)))
            _write_all(file, data.data)
            os.utime(file, ns=(stamp, stamp))
            os.fsync(file)
        finally:
            os.close(file)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return name


@contextmanager
def _opened(folder: int, name: str) -> Iterator[tuple[int, int]]:
    """Open a regular file: its descriptor and size; whatever goes wrong inside is a BadBlockFile."""
    try:
        # Without O_NONBLOCK a pipe in a file's place would block the open.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise BadBlockFile("irregular", "it is not a regular file")
            yield file, status.st_size
        finally:
            os.close(file)
    except FileNotFoundError as error:
        raise BadBlockFile("missing", "it is gone") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise BadBlockFile("irregular", "it is not a regular file") from error
        raise BadBlockFile("unreadable", f"it cannot be read: {error.strerror}") from error


def _check_header(header: BlockHeader, name: str, root: BlockKey) -> None:
    if header.root != root:
        raise BadBlockFile("root", "it belongs to another model")
    if len(header.token_ids) not in (0, BLOCK_TOKENS) or block_name(header.key, header.parent) != name:
        raise BadBlockFile("key", "its key is not that of its name")
    if (header.layout.kind == STATE_KIND) == bool(header.token_ids):
        raise BadBlockFile("layout", f"it holds {header.layout.kind} of {len(header.token_ids)} tokens")
    try:
        key = block_key(header.parent, header.token_ids) if header.token_ids else state_key(header.parent)
    except struct.error as error:
        raise BadBlockFile("key", "its tokens are out of range") from error
    if key != header.key:
        raise BadBlockFile("key", "its key does not fit its tokens")


def _read_into(file: int, view: memoryview) -> None:
    while view:
        count = os.readv(file, [view])
        if not count:
            raise BadBlockFile("size", "it was cut short while being read")
        view = view[count:]


def _write_all(file: int, view: memoryview) -> None:
    while view:
        view = view[os.write(file, view) :]
