"""The folder of the disk tier, as a tree of names: whose it is, who uses it, what lies in it.

    KV_DIR/lock                                  locked (flock) while a server, or `cede kv prune`, uses the folder
    KV_DIR/<root key>/<key>-<parent>.safetensors one block
    KV_DIR/<root key>/<key>.tmp                  a block that is being written; at start, one that a kill left behind

The kernel gives the lock back when its holder dies, however it dies.  KV_DIR is made 0700 if it is missing and
otherwise left as the operator made it, for it may be anything, even /tmp; so what keeps other users out is each root's
folder.  That one must be ours and real, is set to 0700 if it is looser, and is only used through its descriptor.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.file_lock import lock_file
from runtime.errors import CedeError
from runtime.kv.blocks import KEY_BYTES, BlockKey, state_key
from runtime.kv.disk.files import TEMPORARY, block_name, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "lock"
_TEMPORARY_NAME = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}{re.escape(TEMPORARY)}")

logger = logging.getLogger("cede.kv")


class KVFolderError(CedeError):
    """The folder for KV blocks cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A regular file with a block's name.  Nothing of its contents is known.

    Attributes:
        key, parent: as its name says.
        nbytes: of the file.
        stamp: its modification time, ns.
    """

    key: BlockKey
    parent: BlockKey
    nbytes: int
    stamp: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return block_name(self.key, self.parent)

    @property
    def is_state(self) -> bool:
        """Return whether it is the state behind its parent."""
        return self.key == state_key(self.parent)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Have the folder, made if need be, for oneself while the scope lasts.

    Raises:
        KVFolderError: it cannot be used, or another process has it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise KVFolderError(f"{folder}: cannot be used for KV blocks: {error.strerror}") from error
    try:
        try:
            lock_file(file, wait=False)
        except BlockingIOError as error:
            holder = os.read(file, 20).decode(errors="replace").strip() or "unknown"
            raise KVFolderError(f"{folder}: another cede (process {holder}) is using this KV folder") from error
        except OSError as error:
            raise KVFolderError(f"{folder}: cannot be locked: {error.strerror}") from error
        with suppress(OSError):  # for the message above only; the disk may be full
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)  # and with it the lock


@contextmanager
def opened_root(folder: Path, root: BlockKey, *, create: bool = False) -> Iterator[int]:
    """Open one model's own folder, and close it to other users.

    Yields:
        A descriptor.

    Raises:
        KVFolderError: it cannot be used, or is not ours.
    """
    path = folder / root.hex()
    try:
        if create:
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise KVFolderError(f"{path}: cannot be used for KV blocks: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if status.st_uid != os.geteuid():
            raise KVFolderError(f"{path}: belongs to another user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            logger.warning("%s was open to other users; its mode is 0700 now", path)
            os.fchmod(file, 0o700)
        yield file
    finally:
        os.close(file)


def roots(folder: Path) -> list[BlockKey]:
    """Return the models that have blocks in the folder, by their keys.

    Raises:
        KVFolderError: it cannot be read.
    """
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(ValueError):
                    key = bytes.fromhex(entry.name)
                    if len(key) == KEY_BYTES and entry.is_dir(follow_symlinks=False):
                        found.append(key)
    except OSError as error:
        raise KVFolderError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted(found)


def scan(root_folder: int) -> tuple[list[FoundBlock], list[str]]:
    """Return the blocks by name, size and time, and the names that are blocks' but not of regular files."""
    found, irregular = [], []
    with os.scandir(root_folder) as entries:
        for entry in entries:
            keys = parse_name(entry.name)
            if keys is None:
                continue
            with suppress(FileNotFoundError):  # a server may be at work
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(FoundBlock(*keys, status.st_size, status.st_mtime_ns))
                else:
                    irregular.append(entry.name)
    return found, irregular


def remove_temporaries(root_folder: int) -> int:
    """Remove what killed writers left, and say how many; only for the holder of the lock."""
    names = [name for name in os.listdir(root_folder) if _TEMPORARY_NAME.fullmatch(name)]
    for name in names:
        with suppress(OSError):  # a folder of that name; a read-only disk
            os.unlink(name, dir_fd=root_folder)
    return len(names)


def remove(root_folder: int, name: str) -> None:
    """Unlink a file that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=root_folder)
