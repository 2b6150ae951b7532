"""Weight files by their headers: every refusal names its culprit, and the fingerprint sees every part."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from safetensors.torch import load_file, save_file

from runtime.checkpoint import fingerprint
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    FAMILIES["llama"](tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth"])
def test_pickles_are_refused_by_name(llama: Path, name: str) -> None:
    (llama / "model.safetensors").rename(llama / name)
    with pytest.raises(CheckpointError, match=f"{name}.*safetensors"):
        open_checkpoint(llama).tensors()


def test_a_folder_without_weights(llama: Path) -> None:
    (llama / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"holds neither model\.safetensors nor"):
        open_checkpoint(llama).tensors()


@pytest.mark.parametrize("cut", [4, 100, -100], ids=["length", "header", "data"])
def test_a_cut_file_is_named(llama: Path, cut: int) -> None:
    path = llama / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        open_checkpoint(llama).tensors()


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    FAMILIES["llama-sharded"](tmp_path)
    lost = sorted(tmp_path.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(CheckpointError, match=lost.name):
        open_checkpoint(tmp_path).tensors()


def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    FAMILIES["llama-sharded"](tmp_path)
    first, second = sorted(tmp_path.glob("*.safetensors"))[:2]
    name, tensor = next(iter(load_file(first).items()))
    save_file({**load_file(second), name: tensor}, second)
    with pytest.raises(CheckpointError, match=f"{second.name}: {name} is in {first.name} too"):
        open_checkpoint(tmp_path).tensors()


@pytest.mark.parametrize("index", ["{", '{"weight_map": {}}', '{"weight_map": {"a": "../b.safetensors"}}'])
def test_a_broken_index_is_named(llama: Path, index: str) -> None:
    (llama / "model.safetensors").unlink()
    (llama / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match=r"model\.safetensors\.index\.json"):
        open_checkpoint(llama).tensors()


# --- fingerprint --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["whole", "sampled"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether files are hashed whole; the sampled way is otherwise for large files only."""
    whole = bool(request.param)
    if not whole:
        monkeypatch.setattr(fingerprint, "HASHED_WHOLE", 0)
    return whole


@pytest.mark.usefixtures("hashing")
def test_fingerprint_is_stable_and_sees_each_part(tmp_path: Path) -> None:
    FAMILIES["llama-sharded"](tmp_path)
    seen = [open_checkpoint(tmp_path).fingerprint()]
    assert len(seen[0]) == 64
    assert open_checkpoint(tmp_path).fingerprint() == seen[0]

    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    seen.append(open_checkpoint(tmp_path).fingerprint())

    shard = sorted(tmp_path.glob("*.safetensors"))[-1]
    tensors = load_file(shard)
    name = sorted(tensors)[0]
    tensors[name][-1] += 0.5
    times = shard.stat()
    save_file(tensors, shard)
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))  # so the contents alone tell
    seen.append(open_checkpoint(tmp_path).fingerprint())
    assert len(set(seen)) == 3


def test_fingerprint_of_a_large_model_sees_a_later_write(tmp_path: Path, hashing: bool) -> None:
    FAMILIES["llama"](tmp_path)
    before = open_checkpoint(tmp_path).fingerprint()
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    assert (open_checkpoint(tmp_path).fingerprint() == before) == hashing


@pytest.mark.usefixtures("hashing")
def test_fingerprint_names_what_is_missing(llama: Path) -> None:
    (llama / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json"):
        open_checkpoint(llama).fingerprint()


def test_fingerprint_of_what_is_no_safetensors_file(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "HASHED_WHOLE", 0)
    (llama / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0[]" + bytes(100))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        open_checkpoint(llama).fingerprint()
