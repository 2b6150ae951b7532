"""Names of models, with the hub's client faked: no test here reaches for the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from runtime import checkpoint, hub
from runtime.checkpoint import embedded_draft, resolve_model
from runtime.errors import CheckpointError


def _fake_hub(monkeypatch: pytest.MonkeyPatch, **behaviour: Any) -> Mock:  # noqa: ANN401
    download = Mock(**behaviour)
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
    download = _fake_hub(monkeypatch, return_value="/cache/snapshot")
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
    path = tmp_path / "model.gguf"
    path.touch()
    with pytest.raises(CheckpointError, match=r"model\.gguf: is a file"):
        resolve_model(str(path))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (GatedRepoError("gated", response=Mock()), "must be asked for"),
        (RepositoryNotFoundError("404", response=Mock()), "no such repository"),
        (LocalEntryNotFoundError("offline"), "cannot be reached"),
        (OfflineModeIsEnabled("set"), "HF_HUB_OFFLINE"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError("one\ntwo"), "RuntimeError: one"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_are_one_line(error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_hub(monkeypatch, side_effect=error)
    with pytest.raises(CheckpointError, match=f"org/name: not loaded from the hub: .*{reason}") as caught:
        resolve_model("org/name")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error
