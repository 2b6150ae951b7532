"""The safetensors files of a checkpoint folder: their names, their tensors, and their fingerprint."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from runtime.checkpoint.fingerprint import hash_files
from runtime.checkpoint.folder.plain import ITEM_BYTES, PlainTensor
from runtime.checkpoint.json_fields import read_object
from runtime.checkpoint.mtp_layout import BESIDE, DEEPSEEK
from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Buffers that old Llama files hold; they are computed from config.json, as transformers does too.
_IGNORED = re.compile(r"rotary_emb\.inv_freq$")


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
        raise unreadable(path, "safetensors file", error) from error
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
    """Hash config.json and the weight files with their names, as `hash_files` does.

    Raises:
        CheckpointError: a file is missing or broken.
    """
    files = weight_files(folder)
    try:
        config = (folder / "config.json").read_bytes()
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be read: {error}") from error
    return hash_files([config, *(path.name.encode() for path in files)], files, _spans)


# --- the inside of a file -----------------------------------------------------------------------------------------


def _read_beside(folder: Path) -> dict[str, PlainTensor]:
    """Read the header of the file beside the weights that may hold a module for multi-token prediction."""
    return read_shard(folder / BESIDE) if (folder / BESIDE).is_file() else {}


def _check_readable(path: Path) -> None:
    """Let the library check the header against the file, which it does when it opens one.

    The file's beginning is read before: where a disk does not answer, the library would keep the interpreter, and no
    signal would end the process.
    """
    try:
        with path.open("rb") as file:
            file.read(1)
        with safe_open(path, framework="numpy"):
            pass
    except (OSError, SafetensorError) as error:
        raise unreadable(path, "safetensors file", error) from error


def _spans(path: Path) -> tuple[int, list[tuple[int, int]]]:
    """Return the size of a file's header, and where its tensors lie."""
    tensors = read_shard(path).values()
    header = min((tensor.offset for tensor in tensors), default=0)
    return header, [(tensor.offset, tensor.num_bytes) for tensor in tensors]


def _why_no_weights(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder"
    for pattern in ("*.bin", "*.pt", "*.pth"):
        for path in sorted(folder.glob(pattern)):
            return f"holds {path.name}, and weights are read from safetensors files only, never from pickles"
    return f"holds neither {SINGLE} nor {INDEX}"
