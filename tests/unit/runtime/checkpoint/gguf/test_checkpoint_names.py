"""Tensors from GGUF files beside those of the Hugging Face folders that the files were made of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
from gguf import GGMLQuantizationType

from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.checkpoint.gguf.file import GgufFile
from runtime.checkpoint.gguf.tensors import ChangedTensor, GgufTensor
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.gguf.edited import with_tensor
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf
from tests.models.mtp_checkpoints import (
    write_glm4_moe,
    write_glm4_moe_lite,
    write_qwen3_5,
    write_qwen3_5_moe,
    write_qwen3_next,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.checkpoint.stored import StoredTensor


@pytest.mark.parametrize("family", GGUF_FAMILIES)
def test_tensors_have_the_names_and_numbers_of_hugging_face(family: str, tmp_path: Path) -> None:
    GGUF_FAMILIES[family](tmp_path)
    expected = open_checkpoint(tmp_path).tensors()
    found = GgufCheckpoint(write_gguf(tmp_path, tmp_path / "m.gguf")).tensors()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        check_same(name, found[name], tensor)


def check_same(name: str, found: StoredTensor, expected: StoredTensor) -> None:
    """Check that a tensor of a file has the numbers of the folder's."""
    assert found.shape == expected.shape, name
    # A norm to which 1 was added, and of which it is subtracted again, may have lost its last bit.
    tolerance = 2**-23 if isinstance(found, ChangedTensor) else 0.0
    torch.testing.assert_close(found.expand(), expected.expand(), rtol=0, atol=tolerance, msg=name)


write_qwen3_next_of_experts = partial(write_qwen3_next, mlp_only_layers=[], attention_bias=False)
MODULES = [write_glm4_moe, write_glm4_moe_lite, write_qwen3_next_of_experts, write_qwen3_5, write_qwen3_5_moe]


@pytest.mark.parametrize("write", MODULES)
def test_a_module_behind_the_layers_has_the_names_of_hugging_face(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    write(tmp_path)
    expected, found = open_checkpoint(tmp_path), GgufCheckpoint(write_gguf(tmp_path, tmp_path / "m.gguf"))
    assert found.config.num_layers == expected.config.num_layers
    tensors, theirs = found.tensors(), expected.tensors()
    assert tensors.keys() == theirs.keys()
    behind = [name for name in theirs if name.startswith(f"model.layers.{expected.config.num_layers}.")]
    assert behind
    for name in behind:
        check_same(name, tensors[name], theirs[name])


def test_rows_of_queries_and_keys_are_in_order_in_their_own_codes_too(tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    path = write_gguf(tmp_path, tmp_path / "m.gguf", matrices=GGMLQuantizationType.Q4_0)
    found = GgufCheckpoint(path).tensors()
    for part in ("q_proj", "k_proj", "v_proj"):
        tensor = found[f"model.layers.1.self_attn.{part}.weight"]
        assert torch.equal(tensor.codes().expand(), tensor.expand())
        assert torch.equal(tensor.expand([5, 3]), tensor.expand()[[5, 3]])


def test_a_tensor_that_no_part_has_is_refused_by_name(tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    for name in ("blk.0.attn_sinks.weight", "blk.00.attn_q.weight", "blk.0.attn_q.scale", "cls.weight", "blk.x"):
        path = with_tensor(write_gguf(tmp_path, tmp_path / "m.gguf"), name)
        with pytest.raises(CheckpointError, match=rf"m\.gguf: {name} belongs to no part of the architecture 'llama'"):
            GgufCheckpoint(path).tensors()


def test_two_tensors_that_are_the_same_part_are_refused(tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    path = with_tensor(write_gguf(tmp_path, tmp_path / "m.gguf"), "token_embd_norm.weight")
    with pytest.raises(
        CheckpointError, match=r"token_embd_norm\.weight is model\.norm\.weight, which another tensor is"
    ):
        GgufCheckpoint(path).tensors()


def test_what_was_added_to_a_vector_is_taken_off(tmp_path: Path) -> None:
    GGUF_FAMILIES["llama"](tmp_path)
    entry = GgufFile.open(write_gguf(tmp_path, tmp_path / "m.gguf")).tensors["output_norm.weight"]
    stored = GgufTensor(entry)
    less = ChangedTensor(stored, stored.shape, lambda weight: weight - 1)
    assert torch.equal(less.expand(), stored.expand() - 1)
    assert torch.equal(less.expand([3, 1]), stored.expand([3, 1]) - 1)
    assert (less.file, less.shape, less.form, less.num_bytes) == ("m.gguf", (64,), "F32", 256)
    assert less.code_format is None
    with pytest.raises(TypeError, match="has no codes"):
        less.codes()
