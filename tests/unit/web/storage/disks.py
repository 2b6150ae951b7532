"""Disks that take nothing, for tests of what is stored on them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from web.storage import files


class Disk:
    """Disk as a test has it: it takes everything; nothing while there is the reserve; nothing at all."""

    takes = "everything"


class Connection(sqlite3.Connection):
    """A connection to a database on such a disk."""

    disk: Disk
    folder: Path

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401
        """Fail as SQLite does where it would write."""
        full = {"everything": False, "nothing": True}.get(self.disk.takes, (self.folder / files.RESERVE).exists())
        if full and (sql == "COMMIT" or (sql.startswith("UPDATE objects") and not self.in_transaction)):
            if self.in_transaction:
                super().execute("ROLLBACK")
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(sql, parameters)


def disk_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of a folder, whose databases are opened after this."""
    made = Disk()
    of_disk = type("OfDisk", (Connection,), {"disk": made, "folder": folder})
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=of_disk, **options))
    return made
