"""Writing of a block: whole or not at all, and over nothing else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runtime.kv.disk.files import encode_header, write_temporary
from tests.unit.runtime.kv.disk.one_block import DATA, HEADER


@pytest.mark.parametrize("call", ["write", "fsync", "utime"])
def test_a_failed_write_leaves_nothing(folder: int, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        write_temporary(folder, HEADER, DATA, stamp=0)
    assert os.listdir(folder) == []


def test_a_write_in_small_pieces(folder: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "write", lambda file, view, write=os.write: write(file, view[:1000]))
    name = write_temporary(folder, HEADER, DATA, stamp=0)
    assert (tmp_path / name).read_bytes() == encode_header(HEADER) + DATA.tobytes()


def test_a_leftover_or_a_planted_link_of_the_temporary_name_is_replaced(folder: int, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    name = write_temporary(folder, HEADER, DATA, stamp=0)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(target)
    assert write_temporary(folder, HEADER, DATA, stamp=0) == name
    assert target.read_text() == "precious"
    assert not (tmp_path / name).is_symlink()
