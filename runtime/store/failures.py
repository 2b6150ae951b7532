"""Failures of the disk, in plain words and on one line, with what would help."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.common.units import format_size
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def disk_failures(folder: Path) -> Iterator[None]:
    """Turn what goes wrong on the disk, in the scope, into an error that names the folder of models.

    Raises:
        CheckpointError: an OSError was raised in the scope.
    """
    try:
        yield
    except OSError as error:
        raise CheckpointError(disk_reason(error, folder)) from error


def disk_reason(error: OSError, folder: Path) -> str:
    """Say what is the matter with the folder of models."""
    if error.errno in FULL:
        return f"{folder}: the disk is full (--models-dir names another folder)"
    if error.errno in FORBIDDEN:
        return f"{error.filename or folder}: {error.strerror}; --models-dir names another folder"
    return f"{error.filename or folder}: {error.strerror or error}"


def refuse_too_large(needed: int, free: int, place: Path, remedy: str) -> None:
    """Raise CheckpointError where `needed` bytes are more than are `free` at a place; `remedy` is what to do."""
    if needed > free:
        raise CheckpointError(
            f"{place}: the disk is too full: {format_size(needed)} are needed and {format_size(free)} free ({remedy})"
        )
