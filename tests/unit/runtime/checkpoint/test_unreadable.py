"""Files of a model that are empty, cut short, or not fetched: each is named, with what is the matter with it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
DAMAGES = {
    "empty": (b"", "it is empty"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "`git lfs pull` in its folder"),
    "junk": (b"<html>" * 99, "it is no "),
}


def opened(path: Path) -> None:
    """Read all but the weights."""
    checkpoint = open_checkpoint(path)
    _ = (checkpoint.config, checkpoint.generation, checkpoint.tensors(), checkpoint.tokenizer())
    _ = (checkpoint.token_names(), checkpoint.chat_template(), checkpoint.fingerprint())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*FILES, "model.gguf", "folder/model.gguf"])
def test_what_is_wrong_with_a_file_is_said_in_a_line_that_names_it(tmp_path: Path, name: str, damage: str) -> None:
    content, why = DAMAGES[damage]
    broken = tmp_path / name
    path = broken.parent if broken.suffix != ".gguf" or name.startswith("folder") else broken
    if broken.suffix == ".gguf":
        broken.parent.mkdir(exist_ok=True)
    else:
        shutil.copytree(resolve_model(None), tmp_path, dirs_exist_ok=True)
    broken.write_bytes(content)
    with pytest.raises(CheckpointError) as refused:
        opened(resolve_model(str(path)))
    said = str(refused.value)
    assert said.startswith(f"{broken}: cannot be read: ")
    assert why in said
    assert "\n" not in said
    assert "mmap" not in said


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_short_is_said_to_be(tmp_path: Path, name: str) -> None:
    shutil.copytree(resolve_model(None), tmp_path, dirs_exist_ok=True)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=rf"{name}: cannot be read: it is no [a-zA-Z ]+, or cut short"):
        opened(tmp_path)


def test_a_folder_in_place_of_a_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read: Is a directory$"):
        opened(tmp_path)
