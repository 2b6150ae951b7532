"""A GGUF model: one file, or a set that llama-gguf-split made of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gguf.constants import Keys

from runtime.checkpoint.gguf.header import Header, TensorEntry, read_header
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.checkpoint.gguf.metadata import Metadata

ARCHITECTURE: str = Keys.General.ARCHITECTURE
SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")

_NUMBER: str = Keys.Split.LLM_KV_SPLIT_NO
_COUNT: str = Keys.Split.LLM_KV_SPLIT_COUNT
_TENSORS: str = Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The metadata of the first file, and the tensors of all.

    Attributes:
        paths: the files; one, unless the model is split.
        metadata: what the first one says.
        tensors: by their names in the files, in the files' order.
    """

    paths: tuple[Path, ...]
    metadata: Metadata
    tensors: Mapping[str, TensorEntry]

    @classmethod
    def open(cls, path: Path) -> GgufFile:
        """Read the header of the file at `path`, and those of its other parts where it is the first of several.

        Nothing stays open: tensors are read by what their entries say.

        Raises:
            CheckpointError: a file is missing, malformed, or not the first of its set.
        """
        first = read_header(path)
        count = first.metadata.find(_COUNT, int) or 1
        if count == 1:
            return cls((path,), first.metadata, first.tensors)
        paths = _part_paths(path, first, count)
        parts = [first, *(read_header(part) for part in paths[1:])]
        return cls(paths, first.metadata, _joined(paths, parts))

    @property
    def architecture(self) -> str:
        """The name of the model's architecture, llama.cpp's.

        Raises:
            CheckpointError: the file does not say.
        """
        return self.metadata.require(ARCHITECTURE, str)


def _part_paths(path: Path, first: Header, count: int) -> tuple[Path, ...]:
    """Return the paths of all parts, by the name of the first."""
    named = SPLIT_NAME.fullmatch(path.name)
    if named is None or int(named["count"]) != count:
        raise CheckpointError(
            f"{path}: is one of {count} parts, so its name should end in -00001-of-{count:05}.gguf, as the others' do"
        )
    paths = tuple(path.with_name(f"{named['stem']}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1))
    if first.metadata.find(_NUMBER, int) != 0 or path != paths[0]:
        raise CheckpointError(f"{path}: is a later part of a model; name the first, {paths[0].name}")
    for part in paths:
        if not part.is_file():
            raise CheckpointError(f"{part}: is missing; the model has {count} parts")
    return paths


def _joined(paths: tuple[Path, ...], parts: list[Header]) -> dict[str, TensorEntry]:
    """Return the tensors of all parts, which must be those of one set."""
    tensors: dict[str, TensorEntry] = {}
    for index, (path, part) in enumerate(zip(paths, parts, strict=True)):
        if part.metadata.find(_COUNT, int) != len(parts) or part.metadata.find(_NUMBER, int) != index:
            raise CheckpointError(f"{path}: does not say that it is part {index + 1} of {len(parts)}")
        for name, entry in part.tensors.items():
            if name in tensors:
                raise CheckpointError(f"{path}: {name} is in {tensors[name].path.name}, too")
            tensors[name] = entry
    expected = parts[0].metadata.find(_TENSORS, int)
    if expected is not None and expected != len(tensors):
        raise CheckpointError(f"{paths[0]}: {_TENSORS} is {expected}, and its parts hold {len(tensors)}")
    return tensors
