"""The safetensors files of a checkpoint folder: their names, their tensors, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from runtime.checkpoint.folder.plain import ITEM_BYTES, PlainTensor
from runtime.checkpoint.json_fields import read_object
from runtime.checkpoint.mtp_layout import BESIDE, DEEPSEEK
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Buffers that old Llama files hold; they are computed from config.json, as transformers does too.
_IGNORED = re.compile(r"rotary_emb\.inv_freq$")

HASHED_WHOLE = 256 << 20  # bytes of weights; a second or less to read and hash
_SAMPLE = 4096  # bytes


def read_shards(folder: Path) -> dict[str, PlainTensor]:
    """Read the headers of all weight files of `folder`, and of `mtp.safetensors` where there is one.

    Raises:
        CheckpointError: a file is missing or broken, or a tensor is in two of them.
    """
    found: dict[str, PlainTensor] = {}
    beside = {f"{DEEPSEEK.modules}{name}": tensor for name, tensor in _read_beside(folder).items()}
    for part in (*map(read_shard, weight_files(folder)), beside):
        for name, tensor in part.items():
            if name in found:
                raise CheckpointError(f"{tensor.file}: {name} is in {found[name].file} too")
            found[name] = tensor
    return found


def read_shard(path: Path) -> dict[str, PlainTensor]:
    """Read the header of one file; raises CheckpointError if it is unreadable."""
    _check_readable(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] not in ITEM_BYTES:
            raise CheckpointError(f"{path.name}: {name} has numbers of the type {entry['dtype']}, which are not read")
    return {
        name: PlainTensor(path, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__" and not _IGNORED.search(name)
    }


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


def folder_fingerprint(folder: Path) -> str:
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


def _read_beside(folder: Path) -> dict[str, PlainTensor]:
    """Read the header of the file beside the weights that may hold a module for multi-token prediction."""
    return read_shard(folder / BESIDE) if (folder / BESIDE).is_file() else {}


def _check_readable(path: Path) -> None:
    """Let the library check the header against the file, which it does when it opens one."""
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error


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
    for pattern in ("*.bin", "*.pt", "*.pth"):
        for path in sorted(folder.glob(pattern)):
            return f"holds {path.name}, and weights are read from safetensors files only, never from pickles"
    return f"holds neither {SINGLE} nor {INDEX}"
