"""A file of the first version: its objects become those of this one, all or none."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from web.bodies.query import PageAsked
from web.storage.database import ObjectDatabase
from web.storage.files import FILE, StateFolderError
from web.storage.objects import Bounds, Kind, StoredObject

FIRST = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT, previous TEXT,
    model TEXT NOT NULL, metadata TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL, live INTEGER NOT NULL,
    size INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (kind, id)
);
CREATE INDEX objects_by_use ON objects (live, used);
CREATE TABLE total (size INTEGER NOT NULL);
INSERT INTO total VALUES (0);
CREATE TRIGGER object_added AFTER INSERT ON objects BEGIN UPDATE total SET size = size + new.size; END;
CREATE TRIGGER object_changed AFTER UPDATE OF size ON objects
    BEGIN UPDATE total SET size = size + new.size - old.size; END;
CREATE TRIGGER object_removed AFTER DELETE ON objects BEGIN UPDATE total SET size = size - old.size; END;
PRAGMA user_version = 1;
"""
ITEMS = [{"id": "i1", "text": 'a"],\\u2028'}, {"id": "i2", "n": [1.5, {}]}]
SAID = [{"type": "message", "id": "m1", "content": [{"text": "b", "logprobs": []}]}]
RESPONSE = {"id": "r", "output": SAID}


def dumped(*values: object) -> bytes:
    return b"\n".join(json.dumps(value, separators=(",", ":")).encode() for value in values)


BODIES = {
    "conv": (Kind.CONVERSATION, dumped(ITEMS)),
    "empty": (Kind.CONVERSATION, dumped([])),
    "chat": (Kind.CHAT_COMPLETION, dumped({"id": "chat"}, ITEMS)),
    "resp": (Kind.RESPONSE, dumped(RESPONSE, ITEMS, SAID)),
    "older": (Kind.RESPONSE, dumped({"response": RESPONSE, "input": ITEMS})),
}


def now() -> float:
    return 5000.0


def open_in(folder: Path) -> ObjectDatabase:
    return ObjectDatabase(folder, Bounds(1_000_000, 1000.0), now, now)


def write_first(folder: Path, bodies: dict[str, tuple[Kind, bytes]]) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection, connection:
        connection.executescript(FIRST)
        for id, (kind, body) in bodies.items():
            row = (kind, id, "alice", None, "m", '{"k": "v"}', 4000.0, 4500.0, False, len(body), body)
            columns = "kind, id, owner, previous, model, metadata, created, used, live, size, body"
            connection.execute(f"INSERT INTO objects ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def listed(database: ObjectDatabase, kind: Kind, id: str) -> list[Any]:
    page = database.page(kind, id, "alice", PageAsked(100, ascending=True, after=None))
    assert page is not None
    return [json.loads(item.body) for item in page.items]


def test_what_the_first_version_stored_is_there(tmp_path: Path) -> None:
    write_first(tmp_path, BODIES)
    for _ in range(2):  # the second finds a file of this version
        database = open_in(tmp_path)
        for id, body in (("conv", b""), ("chat", dumped({"id": "chat"})), ("resp", dumped(RESPONSE))):
            kind = BODIES[id][0]
            expected = StoredObject(kind, id, body, 4000.0, "alice", None, "m", {"k": "v"})
            assert database.get(kind, id, "alice") == expected
            assert listed(database, kind, id) == ITEMS
        assert listed(database, Kind.CONVERSATION, "empty") == []
        before = database.before(Kind.RESPONSE, "older", "alice", 100, 10_000)
        assert before is not None
        assert [json.loads(item.body) for item in before.items] == ITEMS + SAID
        database.close()
    database = open_in(tmp_path)
    for id, (kind, _) in BODIES.items():
        assert database.delete(kind, id, "alice")
    assert database.size == 0, "each counted what it takes"
    database.close()


def test_one_that_nobody_wrote_leaves_the_file_as_it_was_and_aside(tmp_path: Path) -> None:
    write_first(tmp_path, BODIES | {"wrong": (Kind.CONVERSATION, b'[{"no id": 1}]')})
    database = open_in(tmp_path)
    assert database.size == 0
    database.close()
    with closing(sqlite3.connect(tmp_path / f"{FILE}.damaged-1")) as aside:
        assert aside.execute("PRAGMA user_version").fetchone() == (1,)
        assert aside.execute("SELECT id, body FROM objects ORDER BY number LIMIT 1").fetchone() == (
            "conv",
            dumped(ITEMS),
        )


def test_where_there_is_no_room_for_it_the_file_stays_as_it_was(tmp_path: Path) -> None:
    write_first(tmp_path, BODIES)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]

    class Full(sqlite3.Connection):
        """A disk that takes no page more."""

        def executescript(self, script: str, /) -> sqlite3.Cursor:
            self.execute(f"PRAGMA max_page_count = {pages}")
            return super().executescript(script)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("web.storage.files.sqlite3.connect", lambda *args, **options: Full(*args, **options))
        with pytest.raises(StateFolderError, match=r"full; free some of the disk"):
            open_in(tmp_path)
    database = open_in(tmp_path)
    assert listed(database, Kind.CONVERSATION, "conv") == ITEMS
    database.close()
