"""Files of models with recurrent layers: old ones, modules behind the layers, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType

from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint
from runtime.errors import CheckpointError
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.models.gguf.edited import edited
from tests.models.gguf.files import GGUF_FAMILIES, write_gguf
from tests.models.step_driver import Running, generate, open_transformer, random_tokens

if TYPE_CHECKING:
    from pathlib import Path

_KV_HEADS = "lfm2.attention.head_count_kv"
_RECURRENT = "qwen3next.attention.recurrent_layers"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("lfm2", {_KV_HEADS: None}, f"{_KV_HEADS} is missing"),
    ("lfm2", {_KV_HEADS: 2}, f"{_KV_HEADS} is 2, and should be a list of type int"),
    ("lfm2", {_KV_HEADS: [0, 2]}, f"{_KV_HEADS} has 2 entries for 3 layers"),
    ("lfm2", {_KV_HEADS: [1, 2, 0]}, f"{_KV_HEADS} is not the same number in all layers that attend"),
    ("lfm2", {_KV_HEADS: [0, 0, 0]}, f"{_KV_HEADS} is not the same number in all layers that attend"),
    ("lfm2", {"lfm2.attention.sliding_window": 8}, "lfm2.attention.sliding_window is not a key that cede knows"),
    ("lfm2-moe", {"lfm2moe.expert_gating_func": 1}, "lfm2moe.expert_gating_func is not supported, only 2 is"),
    ("lfm2-moe", {"lfm2moe.expert_weights_scale": 2.0}, "lfm2moe.expert_weights_scale is not a key that cede knows"),
    ("qwen3-next", {"qwen3next.ssm.inner_size": 97}, "qwen3next.ssm.inner_size is 97, of 4 heads of values"),
    ("qwen3-next", {"qwen3next.ssm.time_step_rank": 0}, "qwen3next.ssm.inner_size is 96, of 0 heads of values"),
    ("qwen3-next", {"qwen3next.ssm.group_count": 3}, "linear_num_value_heads 4 is not a multiple of the 3 heads"),
    ("qwen3-next", {_RECURRENT: [True, False]}, f"{_RECURRENT} has 2 entries for 3 layers"),
    ("qwen3-next", {"qwen3next.expert_group_count": 2}, "qwen3next.expert_group_count is not a key that cede knows"),
    ("granite-hybrid", {"granitehybrid.attention.scale": None}, "granitehybrid.attention.scale is missing"),
    ("nemotron-h", {"nemotron_h.feed_forward_length": [0, 96]}, "feed_forward_length has 2 entries for 4 layers"),
    ("nemotron-h", {"nemotron_h.ssm.inner_size": 97}, "nemotron_h.ssm.inner_size is 97, of 8 heads"),
    (
        "kimi-linear",
        {"kimi-linear.expert_gating_func": 1},
        "kimi-linear.expert_gating_func is not supported, only 2 is",
    ),
]


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    GGUF_FAMILIES["qwen3-next"](tmp_path)
    return write_gguf(tmp_path, tmp_path / "m.gguf")


@pytest.mark.parametrize(("size", "in_codes"), [(32, True), (16, False)], ids=["whole groups", "torn groups"])
def test_columns_of_heads_are_in_order_in_their_own_codes_too(size: int, in_codes: bool, tmp_path: Path) -> None:
    GGUF_FAMILIES["qwen3.5"](tmp_path, linear_value_head_dim=size)
    path = write_gguf(tmp_path, tmp_path / "m.gguf", matrices=GGMLQuantizationType.Q4_0)
    tensor = GgufCheckpoint(path).tensors()["model.layers.2.linear_attn.out_proj.weight"]
    exact = read_shards(tmp_path)["model.layers.2.linear_attn.out_proj.weight"].expand()
    torch.testing.assert_close(tensor.expand(), exact, rtol=0, atol=0.15)
    assert (tensor.code_format is not None) == in_codes
    if in_codes:
        assert torch.equal(tensor.codes().expand(), tensor.expand())
        assert torch.equal(tensor.codes(slice(3, 5)).expand(), tensor.expand(slice(3, 5)))


def test_without_a_list_each_fourth_layer_attends_or_as_a_key_says(qwen: Path) -> None:
    path = edited(qwen, {_RECURRENT: None, "qwen3next.full_attention_interval": 2})
    assert [layer is None for layer in GgufCheckpoint(path).config.recurrent] == [False, True, False]
    path = edited(qwen, {"qwen3next.block_count": 5, "qwen3next.full_attention_interval": None})
    assert [layer is None for layer in GgufCheckpoint(path).config.recurrent] == [*[False] * 3, True, False]


def test_old_files_have_the_projections_as_one_matrix(qwen: Path) -> None:
    """In the order of Hugging Face's."""
    name = "linear_attn.in_proj_q{}.weight"
    expected = GgufCheckpoint(qwen).tensors()[f"model.layers.2.{name.format('kv')}"].expand()
    whole = read_shards(qwen.parent)[f"model.layers.2.{name.format('kvz')}"].expand().numpy()
    fused = {"blk.2.attn_qkv.weight": None, "blk.2.attn_gate.weight": None, "blk.2.ssm_in.weight": whole}
    old = GgufCheckpoint(edited(qwen, tensors=fused)).tensors()
    assert torch.equal(old[f"model.layers.2.{name.format('kv')}"].expand(), expected)


def test_a_module_behind_the_layers_is_passed_over_and_so_is_each_further_layer_of_it(qwen: Path) -> None:
    recurrent = [True, False, True, False, False]
    keys = {"block_count": 5, "nextn_predict_layers": 2, "attention.recurrent_layers": recurrent}
    parts = ("blk.3.nextn.eh_proj", "blk.3.nextn.hnorm", "blk.3.attn_norm", "blk.4.attn_norm")
    module = {f"{name}.weight": np.ones(8, np.float32) for name in parts}
    checkpoint = GgufCheckpoint(edited(qwen, {f"qwen3next.{key}": value for key, value in keys.items()}, module))
    assert checkpoint.config.num_layers == 3
    assert len(load_weights(checkpoint, device="cpu", dtype=torch.float32).layers) == 3


def test_the_factors_of_falcon_are_in_its_matrices(tmp_path: Path) -> None:
    FAMILIES["falcon-h1"](tmp_path / "hf", mamba_norm_before_gate=False)
    paths = tmp_path / "hf", write_gguf(tmp_path / "hf", tmp_path / "m.gguf")
    folder, file = (Running(0, random_tokens(20, below=256, seed=1)) for _ in paths)
    for path, running in zip(paths, (folder, file), strict=True):
        generate(open_transformer(path, slots=1), [running], 12)
    assert file.output == folder.output
    for ours, theirs in zip(file.logprobs, folder.logprobs, strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-3)


def test_the_module_of_nemotron_is_left_out(tmp_path: Path) -> None:
    """Attention and experts are one layer there."""
    GGUF_FAMILIES["nemotron-h-latent"](tmp_path)
    path, arch = write_gguf(tmp_path, tmp_path / "m.gguf"), "nemotron_h_moe"
    keys = {"block_count": 4, "nextn_predict_layers": 1, "attention.head_count_kv": [0, 0, 2, 2]}
    keys |= {"feed_forward_length": [0, 32, 0, 32]}
    parts = ("nextn.eh_proj", "nextn.shared_head_norm", "attn_norm", "attn_q", "post_attention_norm", "ffn_gate_inp")
    module = {f"blk.3.{name}.weight": np.ones((8, 8), np.float32) for name in parts}
    checkpoint = GgufCheckpoint(edited(path, {f"{arch}.{key}": value for key, value in keys.items()}, module))
    assert len(load_weights(checkpoint, device="cpu", dtype=torch.float32).layers) == 3


def test_a_granite_4_whose_layers_all_attend_has_keys_of_no_experts(tmp_path: Path) -> None:
    GGUF_FAMILIES["granite"](tmp_path)
    path = write_gguf(tmp_path, tmp_path / "m.gguf")
    config = GgufCheckpoint(path).config
    keys = {"expert_count": 0, "expert_used_count": 0, "expert_shared_feed_forward_length": 96}
    assert GgufCheckpoint(edited(path, {f"granite.{key}": value for key, value in keys.items()})).config == config


@pytest.mark.parametrize(("family", "values", "message"), REFUSED)
def test_refusals_name_the_key(family: str, values: dict[str, Any], message: str, tmp_path: Path) -> None:
    GGUF_FAMILIES[family](tmp_path)
    changed = edited(write_gguf(tmp_path, tmp_path / "m.gguf"), values)
    with pytest.raises(CheckpointError, match=message):
        _ = GgufCheckpoint(changed).config
