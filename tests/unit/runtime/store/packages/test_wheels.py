"""Wheels from anybody."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.store.packages.wheels import MAX_TEXT, Wheel
from tests.models.wheels import make_wheel
from tests.rows import every_row

METADATA = "Metadata-Version: 2.1\nName: a\nVersion: 1\n"


def zipped(folder: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """A wheel of these members and its METADATA."""
    path = folder / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for member, content in members:
            opened.writestr(member, content)
        opened.writestr("a-1.dist-info/METADATA", METADATA)
    return path


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        Wheel(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wheel_says_what_it_is_and_what_it_needs(tmp_path: Path) -> None:
    requires = ["Some.Thing==2", "other; extra == 'x'", "gone; python_version < '3'", "direct @ http://x.test/a", "((("]
    wheel = Wheel(make_wheel(tmp_path, "A_b", "1.2", {"a/x.bin": b"content"}, requires))
    assert (wheel.project, wheel.version) == ("a-b", "1.2")
    assert [str(requirement) for requirement in wheel.requirements()] == ["Some.Thing==2"]
    target = io.BytesIO()
    took: list[bytes] = []
    wheel.copy("a/x.bin", target, took.append)
    assert target.getvalue() == b"".join(took) == b"content"
    wheel.close()


@every_row("name", ["../out.gguf", "a/../../out", "/etc/out", "..\\out", "C:/out", "a/.."])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    assert "leads out of the folder" in refused(zipped(tmp_path, (name, b"x")))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    member = zipfile.ZipInfo("a/model.gguf")
    member.external_attr = (kind | 0o777) << 16
    assert "is a link or a device" in refused(zipped(tmp_path, (member, b"/etc/passwd")))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    assert "a zip bomb" in refused(zipped(tmp_path, ("a/model.gguf", bytes(64 << 20))))


def test_a_huge_declared_size_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, ("a/model.gguf", b"x"))
    content = path.read_bytes()
    central = content.index(b"PK\x01\x02")
    path.write_bytes(content[: central + 24] + struct.pack("<I", 2**32 - 2) + content[central + 28 :])
    assert "a zip bomb" in refused(path)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = zipped(tmp_path, ("a/model.gguf", b"x"), ("a/model.gguf", b"y"))
    assert "two files have one name" in refused(path)


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    assert "is damaged, or no wheel" in refused(path)
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a/x", b"x")
    assert "it has no METADATA" in refused(path)


@pytest.mark.parametrize("version", ["../../up", "", "one", "1/2"])
def test_a_version_that_is_none_is_refused(tmp_path: Path, version: str) -> None:
    """It becomes a folder's name."""
    path = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a-1.dist-info/METADATA", f"Name: a\nVersion: {version}\n")
    assert "has no version" in refused(path)


def test_a_name_that_would_steer_a_terminal_is_refused(tmp_path: Path) -> None:
    assert "has a name that cannot be shown" in refused(zipped(tmp_path, ("a/m\x1b[2J\n.gguf", b"x")))


def test_metadata_have_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a-1.dist-info/METADATA", bytes(MAX_TEXT + 1))
    assert "more than such a file may have" in refused(path)


def test_damage_is_noticed_when_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a/x.bin", b"content of the file")
        opened.writestr("a-1.dist-info/METADATA", METADATA)
    path.write_bytes(path.read_bytes().replace(b"content of", b"c0ntent of"))
    with pytest.raises(CheckpointError, match="is damaged, or no wheel: Bad CRC-32"):
        Wheel(path).copy("a/x.bin", io.BytesIO(), len)


def test_a_file_that_is_not_the_recorded_one_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "a", "1", {"a/x.bin": b"one"}, record={"a/x.bin": b"two"})
    with pytest.raises(CheckpointError, match=r"a/x\.bin is not what the wheel's RECORD says"):
        Wheel(path).copy("a/x.bin", io.BytesIO(), len)


@every_row("seed", range(40))
def test_a_damaged_wheel_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    """Whatever byte is changed, nothing but a CheckpointError comes of it, and what is read is what was written."""
    model = bytes(range(256)) * 8
    path = make_wheel(tmp_path, "a", "1", {"a/x.gguf": model}, ["b"])
    content = bytearray(path.read_bytes())
    content[seed * len(content) // 40] ^= 0xFF
    path.write_bytes(content)
    read: dict[str, bytes] = {}
    with suppress(CheckpointError):  # a refusal is as good
        wheel = Wheel(path)
        wheel.requirements()
        for name in wheel.members:
            target = io.BytesIO()
            wheel.copy(name, target, len)
            read[name] = target.getvalue()
    assert read.get("a/x.gguf", model) == model
