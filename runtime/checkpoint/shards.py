"""The safetensors files of a checkpoint folder: their names, their tensors, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from runtime.checkpoint.json_fields import read_object
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Buffers that old Llama files hold; they are computed from config.json, as transformers does too.
_IGNORED = re.compile(r"rotary_emb\.inv_freq$")

# Bytes of a number, by safetensors' names of the dtypes that are not quantised.
_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}

HASHED_WHOLE = 256 << 20  # bytes of weights; a second or less to read and hash
_SAMPLE = 4096  # bytes


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as its file's header describes it."""

    file: str
    shape: tuple[int, ...]
    kind: str  # safetensors' name of the dtype

    @property
    def num_bytes(self) -> int:
        """Its size in the file."""
        return math.prod(self.shape) * _ITEM_BYTES[self.kind]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file, and the tensors in it by name, without those that are never read."""

    path: Path
    tensors: Mapping[str, TensorEntry]


def read_shards(folder: Path) -> tuple[Shard, ...]:
    """Read the headers of all weight files of `folder`.

    Raises:
        CheckpointError: a file is missing or broken, or a tensor is in none of them, or in two.
    """
    shards = tuple(read_shard(path) for path in weight_files(folder))
    seen: dict[str, str] = {}
    for shard in shards:
        for name in shard.tensors:
            if name in seen:
                raise CheckpointError(f"{shard.path.name}: {name} is in {seen[name]} too")
            seen[name] = shard.path.name
    return shards


def read_shard(path: Path) -> Shard:
    """Read the header of one file; raises CheckpointError if it is unreadable."""
    return Shard(path, _header(path))


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the weight files of `folder`, in the order of their names; raises CheckpointError if one is missing."""
    if (folder / SINGLE).exists():
        return (folder / SINGLE,)
    if not (folder / INDEX).exists():
        raise CheckpointError(f"{folder}: {_why_no_weights(folder)}")
    placed = read_object(folder / INDEX).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{folder / INDEX}: 'weight_map' is not an object with entries")
    names = sorted({str(file) for file in placed.values()})
    for name in names:
        if name != (folder / name).name or not (folder / name).is_file():
            raise CheckpointError(f"{folder}: {name} is named in {INDEX}, but there is no such file")
    return tuple(folder / name for name in names)


def check_shapes(found: Mapping[str, TensorEntry], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise CheckpointError, naming a tensor, unless `found` has the names and shapes `expected`."""
    for name, entry in found.items():
        if entry.kind not in _ITEM_BYTES:  # first: in quantized files most other things look odd as well
            raise CheckpointError(f"{entry.file}: {name} is {entry.kind}; quantized weights are not supported")
    for name in sorted(expected.keys() - found.keys()):
        raise CheckpointError(f"{name}: is missing from the weights")
    for name in sorted(found.keys() - expected.keys()):
        raise CheckpointError(f"{found[name].file}: {name} belongs to no part of this architecture")
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise CheckpointError(
                f"{found[name].file}: {name} is {list(found[name].shape)}, config.json makes it {list(shape)}"
            )


@contextmanager
def open_shard(path: Path) -> Iterator[Any]:
    """Open a file, whose `get_tensor(name)` reads one tensor on the CPU; raises CheckpointError if it is unreadable."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error


def fingerprint(folder: Path) -> str:
    """Hash the folder's model to 64 hex digits: equal fingerprints mean equal keys and values for equal tokens.

    It is SHA-256 over config.json and, for each weight file, its name, size, header and contents.  Files of 256 MiB and
    less in all are hashed whole.  Hashing a larger model would delay the start, so of each tensor the first, middle and
    last 4 KiB are taken, and each file's modification time is hashed too: a fine-tune shows in the samples, and an edit
    that they miss shows in the time.  The price is that a fresh copy of a large model has another fingerprint.

    Raises:
        CheckpointError: a file is missing or broken.
    """
    files = weight_files(folder)
    whole = sum(path.stat().st_size for path in files) <= HASHED_WHOLE
    digest = hashlib.sha256()
    try:
        _add(digest, (folder / "config.json").read_bytes())
        for path in files:
            _add(digest, path.name.encode())
            with path.open("rb") as file:
                if whole:
                    _add(digest, hashlib.file_digest(file, "sha256").digest())
                else:
                    _add(digest, str(path.stat().st_mtime_ns).encode())
                    for part in _samples(file, path):
                        _add(digest, part)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be read: {error}") from error
    return digest.hexdigest()


# --- the inside of a file -----------------------------------------------------------------------------------------


def _header(path: Path) -> dict[str, TensorEntry]:
    with open_shard(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys() if not _IGNORED.search(name)}
        return {name: TensorEntry(path.name, tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}


def _samples(file: BinaryIO, path: Path) -> Iterable[bytes]:
    """Yield the size, the header, and three places of each tensor of a file (8 bytes of length, JSON, data)."""
    size = path.stat().st_size
    yield size.to_bytes(8, "little")
    length = int.from_bytes(file.read(8), "little")
    if length > size:
        raise CheckpointError(f"{path}: is not a safetensors file")
    header = file.read(length)
    yield header
    try:
        entries = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        spans = sorted(tuple(entry["data_offsets"]) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: is not a safetensors file") from error
    for begin, end in spans:
        for offset in (begin, (begin + end) // 2, max(begin, end - _SAMPLE)):
            file.seek(8 + length + offset)
            yield file.read(min(_SAMPLE, end - offset))


def _add(digest: hashlib._Hash, part: bytes) -> None:
    """Add `part` after its length, so that no two lists of parts add up to the same bytes."""
    digest.update(len(part).to_bytes(8, "little") + part)


def _why_no_weights(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder"
    for pattern in ("*.bin", "*.pt", "*.pth", "*.gguf"):
        for path in sorted(folder.glob(pattern)):
            return f"holds {path.name}, and weights are read from safetensors files only, never from pickles"
    return f"holds neither {SINGLE} nor {INDEX}"
