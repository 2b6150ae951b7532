"""Keys and tensors of Gemma 3n's files that are missing, or do not go with the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.errors import CheckpointError
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf
from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    GGUF_FAMILIES["gemma3n"](tmp_path)
    return tmp_path


@every_row(
    "key, value",
    [
        ("altup.active_idx", 1),
        ("altup.num_inputs", None),
        ("attention.shared_kv_layers", None),
        ("feed_forward_length", [96, 96]),
        ("activation_sparsity_scale", 1.6),
    ],
)
def test_refusals_name_the_key(folder: Path, key: str, value: Any) -> None:  # noqa: ANN401
    path = write_gguf(folder, folder / "m.gguf")
    with pytest.raises(CheckpointError, match=re.escape(f"gemma3n.{key} ")):
        _ = GgufCheckpoint(edited(path, {f"gemma3n.{key}": value})).config


@every_row("name", ["blk.0.laurel_l.weight", "per_layer_token_embd.weight"])
def test_a_tensor_that_tells_a_size_is_not_missing(folder: Path, name: str) -> None:
    path = write_gguf(folder, folder / "m.gguf")
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        _ = GgufCheckpoint(edited(path, tensors={name: None})).config
