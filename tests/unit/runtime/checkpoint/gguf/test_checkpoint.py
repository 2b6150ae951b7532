"""GGUF files as checkpoints: what is opened, what it is called, and that a model answers as from its folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint import fingerprint
from runtime.checkpoint.folder.checkpoint import FolderCheckpoint
from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf
from tests.models.step_driver import Running, generate, open_transformer, random_tokens

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hf"
    GGUF_FAMILIES["llama"](path)
    return path


def _answer(path: Path) -> Running:
    running = Running(0, random_tokens(40, below=256, seed=1))
    generate(open_transformer(path, slots=1), [running], TOKENS)
    return running


@pytest.mark.parametrize("family", GGUF_FAMILIES)
def test_a_model_answers_as_from_hugging_faces_files(family: str, tmp_path: Path) -> None:
    GGUF_FAMILIES[family](tmp_path / "hf")
    expected, found = (_answer(path) for path in (tmp_path / "hf", write_gguf(tmp_path / "hf", tmp_path / "m.gguf")))
    assert found.output == expected.output
    for ours, theirs in zip(found.logprobs, expected.logprobs, strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-4)


# --- what is opened -------------------------------------------------------------------------------------------------


def test_a_file_is_a_checkpoint_and_so_is_a_folder_with_one(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    path = write_gguf(folder, alone / "m.gguf")
    for opened in (open_checkpoint(path), open_checkpoint(alone)):
        assert isinstance(opened, GgufCheckpoint)
        assert opened.path == path


def test_a_folder_with_several_files_is_refused_unless_they_are_one_set(folder: Path, tmp_path: Path) -> None:
    several = tmp_path / "several"
    several.mkdir()
    for part in ("m-00001-of-00002", "m-00002-of-00002"):
        write_gguf(folder, several / f"{part}.gguf")
    assert open_checkpoint(several).path == several / "m-00001-of-00002.gguf"
    write_gguf(folder, several / "n.gguf")
    with pytest.raises(CheckpointError, match=r"holds several models, m-00001-of-00002\.gguf, n\.gguf: name one"):
        open_checkpoint(several)


def test_a_folder_of_hugging_face_may_hold_gguf_files_too(folder: Path) -> None:
    write_gguf(folder, folder / "m.gguf")
    assert isinstance(open_checkpoint(folder), FolderCheckpoint)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"PK" * 100)
    with pytest.raises(CheckpointError, match=r"model\.bin: cannot be read: it is no GGUF file"):
        _ = open_checkpoint(tmp_path / "model.bin").config


# --- fingerprint ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["whole", "sampled"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether files are hashed whole; the sampled way is otherwise for large files only."""
    if not request.param:
        monkeypatch.setattr(fingerprint, "HASHED_WHOLE", 0)
    return bool(request.param)


@pytest.mark.usefixtures("hashing")
def test_fingerprint_is_stable_and_sees_each_part(folder: Path, tmp_path: Path) -> None:
    path = write_gguf(folder, tmp_path / "m.gguf")
    times = path.stat()
    seen = [GgufCheckpoint(path).fingerprint()]
    assert len(seen[0]) == 64
    assert GgufCheckpoint(path).fingerprint() == seen[0]
    whole = path.read_bytes()
    for changed in (whole.replace(b"llama.context_length", b"llama.context_lengtH"), whole[:-4] + b"\1\2\3\4"):
        assert changed != whole
        path.write_bytes(changed)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so the contents alone tell
        seen.append(GgufCheckpoint(path).fingerprint())
    assert len(set(seen)) == 3


def test_fingerprint_of_a_large_model_sees_a_later_write(folder: Path, tmp_path: Path, hashing: bool) -> None:
    path = write_gguf(folder, tmp_path / "m.gguf")
    before = GgufCheckpoint(path).fingerprint()
    os.utime(path, ns=(1, 1))
    assert (GgufCheckpoint(path).fingerprint() == before) == hashing
