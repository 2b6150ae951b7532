"""The file: who may read it, who has it open, and what becomes of one that is damaged."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from web.storage.database import ObjectDatabase
from web.storage.files import FILE, StateFolderError
from web.storage.objects import Bounds, Kind, StoredObject

BOUNDS = Bounds(1_000_000, 1000.0)


def now() -> float:
    return 5000.0


def open_in(folder: Path) -> ObjectDatabase:
    return ObjectDatabase(folder, BOUNDS, now, now)


def thing(id: str) -> StoredObject:
    return StoredObject(Kind.RESPONSE, id, b"{}" * 1000, created=1.0)


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    database = open_in(tmp_path / "new" / "state")
    database.put(thing("a"))
    assert stat.S_IMODE((tmp_path / "new" / "state").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new" / "state").iterdir()}
    assert set(modes.values()) == {0o600}
    assert FILE in modes
    database.close()


def test_it_has_one_user_at_a_time(tmp_path: Path) -> None:
    database = open_in(tmp_path)
    with pytest.raises(StateFolderError, match="does another server use it"):
        open_in(tmp_path)
    database.close()
    open_in(tmp_path).close()


def test_what_was_put_is_there_after_any_kill(tmp_path: Path) -> None:
    """A killed process leaves the files as they are at that moment: so does a copy of them."""
    database = open_in(tmp_path / "live")
    for number in range(5):
        database.put(thing(f"r{number}"))
        shutil.copytree(tmp_path / "live", tmp_path / f"copy-{number}")
    database.close()
    for number in range(5):
        copy = open_in(tmp_path / f"copy-{number}")
        assert [copy.get(Kind.RESPONSE, f"r{n}", None) is not None for n in range(5)] == [n <= number for n in range(5)]
        copy.close()


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 1000, None])
def test_a_damaged_file_is_set_aside_by_name(tmp_path: Path, damage: bytes | None) -> None:
    database = open_in(tmp_path)
    for number in range(50):
        database.put(thing(f"r{number}"))
    database.close()
    file = tmp_path / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096) if damage is None else damage)
    for _ in range(2):  # the second finds the new one, which is in order
        database = open_in(tmp_path)
        assert database.size == 0
        database.close()
    aside = [path.name for path in tmp_path.iterdir() if "damaged" in path.name]
    assert aside == ([f"{FILE}.damaged-1"] if damage != b"" else [])  # an empty file is a new one


def test_the_next_damaged_file_does_not_replace_the_last(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / FILE).write_bytes(b"x" * 5000)
        open_in(tmp_path).close()
        assert (tmp_path / f"{FILE}.damaged-{number}").exists()


def test_a_later_version_is_left_alone(tmp_path: Path) -> None:
    open_in(tmp_path).close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StateFolderError, match="later version"):
        open_in(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFolderError, match=r"--state-dir: .*file"):
        open_in(tmp_path / "file" / "below")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateFolderError, match="cannot be used"):
        open_in(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
