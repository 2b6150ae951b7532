"""DeepSeek's files: those of before attention over latents, in quantised types, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.checkpoint.gguf.file import GgufFile
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf

if TYPE_CHECKING:
    from pathlib import Path

HEADS, RANK, PLAIN, ROPE, VALUE = 4, 48, 12, 8, 16
UP = "model.layers.1.self_attn.kv_b_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    GGUF_FAMILIES["deepseek2"](tmp_path)
    return tmp_path


@pytest.fixture
def file(folder: Path) -> Path:
    return write_gguf(folder, folder / "m.gguf")


def test_old_files_are_those_of_ordinary_heads(folder: Path, file: Path) -> None:
    """They have `attn_kv_b` whole, and no sizes beside those of the heads."""
    expected = open_checkpoint(folder)
    tensors: dict[str, Any] = {f"blk.{layer}.attn_{part}_b.weight": None for layer in range(3) for part in "kv"}
    for layer in range(3):
        whole = expected.tensors()[f"model.layers.{layer}.self_attn.kv_b_proj.weight"]
        tensors[f"blk.{layer}.attn_kv_b.weight"] = whole.expand().numpy()
    sizes = {"key_length": PLAIN + ROPE, "value_length": VALUE, "head_count_kv": HEADS}
    new = {f"deepseek2.attention.{name}_length_mla": None for name in ("key", "value")}
    old = GgufCheckpoint(edited(file, new | {f"deepseek2.attention.{k}": v for k, v in sizes.items()}, tensors))
    assert old.config.latent == expected.config.latent
    assert torch.equal(old.tensors()[UP].expand(), expected.tensors()[UP].expand())


def test_parts_of_keys_and_values_are_joined_in_whatever_type(folder: Path, tmp_path: Path) -> None:
    """In float16 here, for a row of 12 numbers has no quantised type."""
    path = write_gguf(folder, tmp_path / "f16.gguf", matrices=GGMLQuantizationType.F16)
    tensors, stored = GgufCheckpoint(path).tensors(), GgufFile.open(path).tensors
    parts = [stored[f"blk.1.attn_{part}_b.weight"] for part in "kv"]
    assert [part.shape for part in parts] == [(HEADS, RANK, PLAIN), (HEADS, VALUE, RANK)]
    exact = open_checkpoint(folder).tensors()[UP].expand()
    joined = tensors[UP]
    assert (joined.shape, joined.form, joined.code_format) == (tuple(exact.shape), "F16", None)
    assert joined.num_bytes == sum(part.num_bytes for part in parts)
    assert torch.equal(joined.expand(), exact.half().float())
    assert torch.equal(joined.expand([5, 3]), exact.half().float()[[5, 3]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope.scaling.yarn_log_multiplier": None}, "deepseek2.rope.scaling.yarn_log_multiplier"),
        ({"expert_gating_func": 4}, "deepseek2.expert_gating_func is 4, which is not supported"),
        ({"attention.kv_lora_rank": None}, "deepseek2.attention.kv_lora_rank"),
        ({"attention.key_length_mla": ROPE}, "qk_nope_head_dim 0 is not a whole number"),
        ({"rope.dimension_count": None}, "deepseek2.rope.dimension_count"),
        ({"expert_count": 7}, "n_group 4 does not divide the 7 experts"),
        ({"attention.temperature_scale": 0.1}, "temperature_scale is not a key that cede knows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_name_the_key(file: Path, values: dict[str, Any], message: str) -> None:
    changed = edited(file, {f"deepseek2.{key}": value for key, value in values.items()})
    with pytest.raises(CheckpointError, match=message):
        _ = GgufCheckpoint(changed).config


def test_parts_of_another_shape_are_not_joined(file: Path) -> None:
    name = "blk.1.attn_k_b.weight"
    tensors = GgufCheckpoint(edited(file, tensors={name: np.zeros((HEADS, RANK, PLAIN + 1), np.float32)})).tensors()
    assert UP not in tensors
    assert "model.layers.1.self_attn.k_b_proj.weight" in tensors
