"""Names of models, with the hub's client faked: no test here reaches for the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from runtime.checkpoint import hub
from runtime.checkpoint import locate as checkpoint
from runtime.checkpoint.locate import embedded_draft, resolve_model
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence


def _fake_hub(
    monkeypatch: pytest.MonkeyPatch, names: Sequence[str] = ("model.safetensors",), refusal: Exception | None = None
) -> Mock:
    """A hub whose every repository holds files of these `names`, unless it refuses; what downloads."""
    info = Mock(siblings=[Mock(rfilename=name) for name in names])
    monkeypatch.setattr(hub, "model_info", Mock(return_value=info, side_effect=refusal))
    download = Mock(
        return_value="/cache/snapshot", side_effect=None if refusal is None else LocalEntryNotFoundError("absent")
    )
    monkeypatch.setattr(hub, "snapshot_download", download)
    return download


def test_no_name_is_the_embedded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "files", lambda package: tmp_path / package)
    with pytest.raises(CheckpointError, match="embedded"):
        resolve_model(None)
    (tmp_path / "runtime" / "embedded" / "target").mkdir(parents=True)
    assert resolve_model(None) == tmp_path / "runtime" / "embedded" / "target"


def test_the_embedded_model_has_a_draft_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedded_draft() == resolve_model(None).parent / "draft"
    monkeypatch.setattr(checkpoint, "files", lambda package: tmp_path / package)
    with pytest.raises(CheckpointError, match="without its embedded draft model"):
        embedded_draft()


def test_a_folder_is_itself_even_if_it_looks_like_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download = _fake_hub(monkeypatch)
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_model("org/name") == Path("org/name")
    assert resolve_model(str(tmp_path)) == tmp_path
    download.assert_not_called()


def test_a_repository_is_downloaded_without_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    download = _fake_hub(monkeypatch)
    assert resolve_model("org/na.me-1B") == Path("/cache/snapshot")
    (repository,), patterns = download.call_args
    assert repository == "org/na.me-1B"
    assert {"*.json", "*.safetensors", "*.jinja"} <= set(patterns["allow_patterns"])
    assert "*/*" in patterns["ignore_patterns"]


@pytest.mark.parametrize("name", ["nowhere", "/no/such/folder", "./org/name", "../name", "org/name/more", "~/nope"])
def test_what_is_neither_folder_nor_repository(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    download = _fake_hub(monkeypatch)
    with pytest.raises(CheckpointError, match="neither a folder here nor a hub repository"):
        resolve_model(name)
    download.assert_not_called()


def test_a_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: is a file"):
        resolve_model(str(path))


def test_gguf_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes from: a file, a folder, the hub."""
    path = tmp_path / "model.Q4.gguf"
    path.touch()
    download = _fake_hub(monkeypatch, ["README.md", "config.json", "model.Q4.gguf"])
    for name in (str(path), str(tmp_path), "org/name-GGUF"):
        with pytest.raises(CheckpointError, match=r"GGUF.*; cede reads folders .*, not GGUF yet"):
            resolve_model(name)
    download.assert_not_called()


def test_a_repository_with_gguf_beside_its_weights_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_hub(monkeypatch, ["model.gguf", "model.safetensors"])
    assert resolve_model("org/name") == Path("/cache/snapshot")


def test_what_is_in_the_cache_needs_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    download = _fake_hub(monkeypatch, refusal=ConnectError("nobody is there"))
    download.side_effect = None
    assert resolve_model("org/name") == Path("/cache/snapshot")
    assert download.call_args.kwargs["local_files_only"]


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
        (HfHubHTTPError("no", response=Mock(status_code=403)), "the hub does not let this token read it"),
        (HfHubHTTPError("oh", response=Mock(status_code=500)), "answers with status 500"),
        (OSError(28, "No space left on device"), "the disk is full"),
        (PermissionError(13, "Permission denied", "/cache"), "/cache: Permission denied"),
        (ProxyError("407 Proxy Authentication Required"), "the proxy refuses or does not answer: ProxyError: 407"),
        (ConnectError("one\ntwo"), "cannot be reached: ConnectError: one$"),
        (RuntimeError("one\ntwo"), "RuntimeError: one$"),
        (TimeoutError(), "does not answer$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_are_one_line(error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    _fake_hub(monkeypatch, refusal=error)
    with pytest.raises(CheckpointError, match=f"org/name: not loaded from the hub: .*{reason}") as caught:
        resolve_model("org/name")
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
def test_a_proxy_is_named_without_its_password(proxy: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    _fake_hub(monkeypatch, refusal=ConnectError("refused"))
    with pytest.raises(CheckpointError, match=rf"cannot be reached: .* \(through HTTPS_PROXY={shown}\)$"):
        resolve_model("org/name")
