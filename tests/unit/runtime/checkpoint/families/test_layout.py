"""Names and orders of files, and what layers ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.checkpoint.families.layout import deinterleave, split_gate_up, split_qkv, text_part
from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

LAYER = "model.layers.1."


def test_keys_and_values_of_layers_that_have_no_kv_are_left_out(tmp_path: Path) -> None:
    """Published files have them for all layers."""
    FAMILIES["gemma4-layer-inputs"](tmp_path)  # of six layers, the last three read what others have
    path = tmp_path / "model.safetensors"
    expected, tensors = open_checkpoint(tmp_path).tensors().keys(), load_file(path)
    unused = {name.replace(".0.", ".4."): tensor for name, tensor in tensors.items() if ".0.self_attn." in name}
    save_file({name: tensor.clone() for name, tensor in (unused | tensors).items()}, path)
    assert open_checkpoint(tmp_path).tensors().keys() == expected


def test_fused_matrices_become_their_parts(tmp_path: Path) -> None:
    FAMILIES["phi3"](tmp_path)  # 4 query and 2 key heads of 16 numbers, 96 rows of gate and of up
    whole, parts = load_file(tmp_path / "model.safetensors"), open_checkpoint(tmp_path).tensors()
    qkv, gate_up = whole[f"{LAYER}self_attn.qkv_proj.weight"], whole[f"{LAYER}mlp.gate_up_proj.weight"]
    for name, rows in {
        "self_attn.q_proj": qkv[:64],
        "self_attn.k_proj": qkv[64:96],
        "self_attn.v_proj": qkv[96:],
        "mlp.gate_proj": gate_up[:96],
        "mlp.up_proj": gate_up[96:],
    }.items():
        stored = parts[f"{LAYER}{name}.weight"]
        assert stored.shape == tuple(rows.shape)
        assert torch.equal(stored.expand(), rows)
        assert torch.equal(stored.expand(slice(3, 7)), rows[3:7])
    assert not any("qkv" in name or "gate_up" in name for name in parts)
    assert sum(stored.num_bytes for stored in parts.values()) == sum(tensor.nbytes for tensor in whole.values())


@pytest.mark.parametrize("module", ["self_attn.qkv_proj", "mlp.gate_up_proj"])
def test_a_fused_matrix_of_another_size_is_refused_by_name(module: str, tmp_path: Path) -> None:
    FAMILIES["phi3"](tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {f"{LAYER}{module}.weight": torch.zeros(5, 64)}, path)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: {LAYER}{module}\.weight is \[5, 64\]"):
        open_checkpoint(tmp_path).tensors()


@pytest.mark.parametrize("family", ["glm", "cohere-qk-norm"])
def test_rotated_pairs_are_put_apart(family: str, tmp_path: Path) -> None:
    """Head by head: the even numbers of the rotated part, the odd ones, and what is not rotated."""
    FAMILIES[family](tmp_path)
    whole, parts = load_file(tmp_path / "model.safetensors"), open_checkpoint(tmp_path).tensors()
    rotated, head_dim = {"glm": (12, 24), "cohere-qk-norm": (16, 16)}[family]
    names = ["q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias"]
    names += ["q_norm.weight", "k_norm.weight"] if family != "glm" else []
    for name in names:
        theirs, ours = whole[f"{LAYER}self_attn.{name}"], parts[f"{LAYER}self_attn.{name}"]
        assert ours.shape == tuple(theirs.shape)
        heads = theirs.view(-1, head_dim, *([] if "norm" in name else theirs.shape[1:]))
        expected = torch.cat((heads[:, 0:rotated:2], heads[:, 1:rotated:2], heads[:, rotated:]), dim=1)
        assert torch.equal(ours.expand(), expected.view(theirs.shape))
    values = f"{LAYER}self_attn.v_proj.weight"
    assert torch.equal(parts[values].expand(), whole[values])


def test_rows_that_are_no_whole_heads_stay_to_be_refused(tmp_path: Path) -> None:
    FAMILIES["glm"](tmp_path)
    config, name = open_checkpoint(tmp_path).config, f"{LAYER}self_attn.q_proj.weight"
    stored = replace(read_shards(tmp_path)[name], shape=(25, 1))
    assert deinterleave({name: stored}, config) == {name: stored}


def test_the_text_part_of_a_model_that_reads_images(tmp_path: Path) -> None:
    FAMILIES["gemma3-images"](tmp_path)
    names = open_checkpoint(tmp_path).tensors().keys()
    FAMILIES["gemma3"](tmp_path / "text")
    assert names == open_checkpoint(tmp_path / "text").tensors().keys()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("language_model.model.norm.weight", "model.norm.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("vision_tower.vision_model.post_layernorm.weight", None),
        ("model.multi_modal_projector.mm_input_projection_weight", None),
    ],
)
def test_names_of_transformers_4_and_5(name: str, own: str | None, tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    stored = checkpoint.tensors()["model.norm.weight"]
    assert text_part({name: stored}, checkpoint.config) == ({} if own is None else {own: stored})


def test_what_is_not_fused_stays(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    tensors = checkpoint.tensors()
    assert split_gate_up(split_qkv(tensors, checkpoint.config), checkpoint.config) == tensors


def test_ernies_correction_is_a_vector_and_its_module_is_left_out(tmp_path: Path) -> None:
    FAMILIES["ernie-moe"](tmp_path)
    path = tmp_path / "model.safetensors"
    whole = load_file(path)
    save_file(whole | {"model.mtp_linear_proj.0.weight": torch.zeros(64, 128)}, path)
    parts = open_checkpoint(tmp_path).tensors()
    correction = whole[f"{LAYER}mlp.moe_statics.e_score_correction_bias"]
    assert correction.shape == (1, 6)
    assert torch.equal(parts[f"{LAYER}mlp.gate.e_score_correction_bias"].expand(), correction[0])
    assert not any("mtp" in name or "moe_statics" in name for name in parts)
