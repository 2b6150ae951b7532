"""The file of a database: its permissions, its one owner, and what is done with a damaged one."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.common.log_text import literal
from runtime.common.units import MIB
from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger("cede.web")

FILE = "state.sqlite3"
COMPANIONS = ("", "-wal", "-shm")
"""What SQLite appends to the name of a database for the files that belong to it."""

RESERVE = "state.reserve"
RESERVE_BYTES = 4 * MIB
"""Of a file that keeps room on the disk for deleting when nothing else fits on it any more."""

TAKES_NOTHING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StateFolderError(CedeError):
    """The folder for stored objects cannot be used; the message says why."""


class UnknownVersion(Exception):
    """A later cede has written the file."""


def damage(what: str) -> sqlite3.DatabaseError:
    """Return an error that says that the file is damaged, where SQLite itself has not noticed."""
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file is damaged, and not that the disk is full or the like."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in DAMAGE  # the low byte of SQLite's extended codes


def takes_nothing(error: sqlite3.Error) -> bool:
    """Return whether an error says that the disk cannot be written now: it is full, or only to be read."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in TAKES_NOTHING


def make_reserve(folder: Path) -> None:
    """Keep room on the disk, or as much of it as there is, unless it is kept."""
    try:
        if (folder / RESERVE).exists() and (folder / RESERVE).stat().st_size == RESERVE_BYTES:
            return
        descriptor = os.open(folder / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(os.urandom(RESERVE_BYTES))  # a file system could keep zeros in no room at all
    except OSError as error:
        logger.warning("stored objects: no room on the disk is kept for deleting: %s", error.strerror)


@contextmanager
def reserve_given_up(folder: Path) -> Iterator[None]:
    """The room that is kept on the disk is free for the body of the scope."""
    try:
        (folder / RESERVE).unlink(missing_ok=True)
    except OSError as error:  # the body shows what can be done without
        logger.warning("stored objects: the reserve cannot be given up: %s", error.strerror)
    try:
        yield
    finally:
        make_reserve(folder)


def make_folder(folder: Path) -> None:
    """Make the folder, readable by its owner alone, unless it is there.

    Raises:
        StateFolderError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateFolderError(_unusable(folder, error)) from error


def _unusable(path: Path, error: OSError) -> str:
    return f"--state-dir: {literal(str(path))} cannot be used: {error.strerror}; name a folder that can be written to"


def connect(folder: Path) -> sqlite3.Connection:
    """Open the folder's file, which is made with permissions for its owner alone.  The connection owns it.

    Raises:
        StateFolderError: the file cannot be opened.
        sqlite3.Error: the database does not work, as where the file is damaged or another process owns it.
    """
    path = folder / FILE
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StateFolderError(_unusable(path, error)) from error
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        # In this mode the first access takes the file's lock for as long as the connection is open.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")  # what was deleted is overwritten
        if (fault := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            logger.warning("%s: %s", literal(str(path)), literal(fault))
            raise damage(fault)
    except BaseException:
        connection.close()
        raise
    return connection


def set_aside(folder: Path) -> Path:
    """Rename the database's files, so that a fresh one can be made, and return the new name of the first.

    Raises:
        StateFolderError: they cannot be renamed.
    """
    number = 1
    while (aside := folder / f"{FILE}.damaged-{number}").exists():
        number += 1
    try:
        for companion in COMPANIONS:
            if (path := folder / f"{FILE}{companion}").exists():
                path.rename(f"{aside}{companion}")
    except OSError as error:
        raise StateFolderError(f"--state-dir: {literal(str(folder))}: {error.strerror}") from error
    logger.error("the file of stored objects is damaged; it is kept as %s, and a new one begun", literal(str(aside)))
    return aside
