"""Downloads from the hub, with its client faked."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from runtime.errors import CheckpointError
from runtime.store import hub
from runtime.store.hub import download
from runtime.store.names import HubName
from runtime.store.progress import SILENT

NAME = HubName("org/name")
FOLDER = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
    "model.py": b"",
    "a/b.json": b"",
}
GGUF = {"README.md": b"", "config.json": b"{}", "m-Q4_K_M.gguf": b"four", "m-Q8_0.gguf": b"eight"}

DiskUsage = namedtuple("DiskUsage", "total used free")


class FakeHub:
    """A hub whose one repository holds some files, and its cache.

    Args:
        cache: the cache's folder.
        monkeypatch: puts it in the client's place.
    """

    def __init__(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: Mapping[str, bytes] = FOLDER
        self.refusal: Exception | None = None
        self.fetched: list[str] = []
        self.snapshot = cache / "snapshot"
        self.large: list[str] = []
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(hub, "model_info", self._info)
        monkeypatch.setattr(hub, "hf_hub_download", self._download)
        monkeypatch.setattr(hub, "try_to_load_from_cache", self._cached)
        monkeypatch.setattr(hub, "snapshot_download", self._snapshot)
        monkeypatch.setattr(hub, "fetch_large", lambda repository, file, *_: self.large.append(file))

    def _info(self, repository: str, *, files_metadata: bool, timeout: float) -> Mock:
        if self.refusal is not None:
            raise self.refusal
        return Mock(siblings=[self._sibling(name, content) for name, content in self.files.items()])

    def _sibling(self, name: str, content: bytes) -> Mock:
        lfs = Mock(size=len(content)) if name.endswith((".gguf", ".safetensors")) else None
        return Mock(rfilename=name, size=len(content), lfs=lfs)

    def _cached(self, repository: str, name: str) -> str | None:
        path = self.snapshot / name
        return str(path) if path.exists() else None

    def _download(self, repository: str, name: str) -> str:
        path = self.snapshot / name
        if not path.exists():
            self.fetched.append(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.files[name])
        return str(path)

    def _snapshot(self, repository: str, **_: object) -> str:
        if not self.snapshot.exists():
            raise LocalEntryNotFoundError("absent")
        return str(self.snapshot)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return FakeHub(tmp_path / "cache", monkeypatch)


def test_a_repository_is_a_folder_of_what_a_server_reads(fake: FakeHub) -> None:
    assert download(NAME, SILENT) == fake.snapshot
    assert fake.fetched == ["config.json", "model.safetensors", "tokenizer.json"]
    assert fake.large == ["model.safetensors"]


def test_what_is_there_is_not_fetched_again(fake: FakeHub) -> None:
    download(NAME, SILENT)
    assert download(NAME, SILENT) == fake.snapshot
    assert len(fake.fetched) == 3


def test_a_tag_fetches_one_file(fake: FakeHub) -> None:
    fake.files = GGUF
    assert download(HubName("org/name", "q8_0"), SILENT) == fake.snapshot / "m-Q8_0.gguf"
    assert fake.fetched == ["m-Q8_0.gguf"]


def test_a_repository_of_gguf_files_gives_the_preferred_one(fake: FakeHub) -> None:
    fake.files = GGUF
    assert download(NAME, SILENT) == fake.snapshot / "m-Q4_K_M.gguf"


def test_all_parts_of_a_split_set_are_fetched(fake: FakeHub) -> None:
    fake.files = {f"Q4/m-Q4_0-0000{number}-of-00002.gguf": b"x" for number in (1, 2)}
    assert download(HubName("org/name", "Q4_0"), SILENT) == fake.snapshot / "Q4" / "m-Q4_0-00001-of-00002.gguf"
    assert fake.fetched == list(fake.files)


def test_a_repository_with_gguf_beside_its_weights_is_a_folder(fake: FakeHub) -> None:
    fake.files = FOLDER | GGUF
    assert download(NAME, SILENT) == fake.snapshot
    assert not [name for name in fake.fetched if name.endswith(".gguf")]


@pytest.mark.parametrize("files", [{"README.md": b""}, {"model.safetensors": b""}, {}])
def test_a_repository_without_a_model_is_refused(fake: FakeHub, files: dict[str, bytes]) -> None:
    fake.files = files
    with pytest.raises(CheckpointError, match=r"holds neither config\.json with safetensors files nor a GGUF"):
        download(NAME, SILENT)


def test_a_tag_that_the_repository_lacks_lists_what_there_is(fake: FakeHub) -> None:
    fake.files = GGUF
    with pytest.raises(CheckpointError, match=r"no GGUF file for Q2_K; there are: m-Q4_K_M\.gguf, m-Q8_0\.gguf"):
        download(HubName("org/name", "Q2_K"), SILENT)


def test_a_disk_that_is_too_full_is_noticed_before_anything_is_fetched(
    fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: DiskUsage(100, 92, 8))
    with pytest.raises(CheckpointError, match=r"cache: the disk is too full: 11 B are needed and 8 B free \(HF_HOME"):
        download(NAME, SILENT)
    assert fake.fetched == []


def test_what_is_in_the_cache_needs_no_hub(fake: FakeHub) -> None:
    download(NAME, SILENT)
    fake.refusal = ConnectError("nobody is there")
    assert download(NAME, SILENT) == fake.snapshot


def test_a_gguf_file_in_the_cache_needs_no_hub(fake: FakeHub) -> None:
    fake.files = GGUF
    wanted = HubName("org/name", "Q8_0")
    download(wanted, SILENT)
    fake.refusal = ConnectError("nobody is there")
    assert download(wanted, SILENT) == fake.snapshot / "m-Q8_0.gguf"
    with pytest.raises(CheckpointError, match="cannot be reached"):
        download(HubName("org/name", "Q4_K_M"), SILENT)


@pytest.mark.parametrize("absent", ["config.json", "model-00002-of-00002.safetensors"])
def test_a_download_that_was_cut_off_is_not_served_without_the_hub(fake: FakeHub, absent: str) -> None:
    weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = f'{{"weight_map": {{"a": "{weights[0]}", "b": "{weights[1]}"}}}}'.encode()
    fake.files = {"config.json": b"{}", "model.safetensors.index.json": index} | dict.fromkeys(weights, b"w")
    download(NAME, SILENT)
    (fake.snapshot / absent).unlink()
    fake.refusal = ConnectError("nobody is there")
    with pytest.raises(CheckpointError, match="cannot be reached"):
        download(NAME, SILENT)


def test_a_repository_that_the_hub_refuses_is_not_served_from_the_cache(fake: FakeHub) -> None:
    download(NAME, SILENT)
    fake.refusal = GatedRepoError("gated", response=Mock())
    with pytest.raises(CheckpointError, match="must be asked for"):
        download(NAME, SILENT)


class ConnectError(Exception):
    """As httpx calls it."""


class ProxyError(Exception):
    """As requests and httpx call it."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (GatedRepoError("gated", response=Mock()), "must be asked for"),
        (RepositoryNotFoundError("404", response=Mock()), "no such repository"),
        (OfflineModeIsEnabled("set"), "HF_HUB_OFFLINE"),
        (HfHubHTTPError("no", response=Mock(status_code=401)), "wants to know who asks"),
        (HfHubHTTPError("no", response=Mock(status_code=403)), "the hub does not let this token read it"),
        (HfHubHTTPError("oh", response=Mock(status_code=500)), "answers with status 500"),
        (OSError(28, "No space left on device"), "the disk is full"),
        (PermissionError(13, "Permission denied", "/cache"), "/cache: Permission denied"),
        (OSError(30, "Read-only file system", "/cache"), "/cache: Read-only file system"),
        (ProxyError("407 Proxy Authentication Required"), "the proxy refuses or does not answer: ProxyError: 407"),
        (ConnectError("one\ntwo"), "cannot be reached: ConnectError: one$"),
        (RuntimeError("one\ntwo"), "RuntimeError: one$"),
        (TimeoutError(), "does not answer$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_are_one_line(error: Exception, reason: str, fake: FakeHub) -> None:
    fake.refusal = error
    with pytest.raises(CheckpointError, match=f"org/name: not loaded from the hub: .*{reason}") as caught:
        download(NAME, SILENT)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("http://me:se%40cret@proxy.test:3128", r"http://\*\*\*@proxy\.test:3128"),
        ("me:secret@proxy.test", r"\*\*\*@proxy\.test"),
        ("http://proxy.test:3128", r"http://proxy\.test:3128"),
    ],
)
def test_a_proxy_is_named_without_its_password(
    proxy: str, shown: str, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    fake.refusal = ConnectError("refused")
    with pytest.raises(CheckpointError, match=rf"cannot be reached: .* \(through HTTPS_PROXY={shown}\)$"):
        download(NAME, SILENT)
