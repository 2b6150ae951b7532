"""Reasons why a model cannot be read, in plain words: most files are empty, cut short, or not fetched at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ALIKE = 4  # letters that names of one maker's models share
_LFS = b"version https://git-lfs.github.com/"


def unreadable(path: Path, kind: str, error: Exception) -> CheckpointError:
    """Return the error to raise for a file that should be a `kind`, and was found by `error` to be none."""
    return CheckpointError(f"{path}: cannot be read: {_why(path, kind, error)}")


def not_among(name: str, known: Iterable[str]) -> str:
    """Return what to say of an architecture that is not `known`; of those that are, it names a few."""
    near = [each for each in known if each[:_ALIKE].casefold() == name[:_ALIKE].casefold()]
    unlike = f", unlike {', '.join(near)}" if near else ""
    return f"is not supported{unlike}; the README names the families that are"


def _why(path: Path, kind: str, error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_LFS))
    except OSError as gone:
        return gone.strerror or str(gone)
    if not beginning:
        return "it is empty"
    if beginning == _LFS:
        return "it only says where Git LFS has the file; `git lfs pull` in its folder fetches it"
    return f"it is no {kind}, or cut short ({error})"
