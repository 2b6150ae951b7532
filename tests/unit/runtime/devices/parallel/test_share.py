"""Shares of a model: the shape of one, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.families.norms import COHERE
from runtime.checkpoint.open import open_checkpoint
from runtime.devices.parallel.share import Share, check_shares, share_config
from runtime.errors import CheckpointError
from tests.models.checkpoints import FAMILIES


def config_of(folder: Path, family: str) -> ModelConfig:
    FAMILIES[family](folder)
    return open_checkpoint(folder).config


def test_parts_follow_one_another_and_leave_nothing_out() -> None:
    parts = [Share(rank, 3).part(12) for rank in range(3)]
    assert [list(range(12))[part] for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [Share(rank, 3).leads for rank in range(3)] == [True, False, False]


def test_a_share_has_its_part_of_heads_and_of_every_expert(tmp_path: Path) -> None:
    config = config_of(tmp_path, "deepseek3")
    check_shares(config, 2)
    own = share_config(config, 2)
    assert own.num_heads == config.num_heads // 2
    assert own.kv_shape == config.kv_shape, "latents are whole on every rank"
    for experts, whole in zip(own.experts, config.experts, strict=True):
        assert (experts is None) == (whole is None)
        if experts is not None and whole is not None:
            assert experts.count == whole.count
            assert experts.intermediate_size == whole.intermediate_size // 2
            assert experts.shared_size == whole.shared_size // 2


def test_one_rank_has_the_model_itself(tmp_path: Path) -> None:
    config = config_of(tmp_path, "llama")
    check_shares(config, 1)
    assert share_config(config, 1) is config


@pytest.mark.parametrize(
    ("family", "of", "what"),
    [
        ("llama", 3, "attention heads of LlamaForCausalLM, 4,"),
        ("smollm", 2, "key and value heads of LlamaForCausalLM, 1,"),
        ("deepseek3", 3, "attention heads of DeepseekV3ForCausalLM, 4,"),
    ],
)
def test_heads_that_cannot_be_divided_are_refused(family: str, of: int, what: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"--tensor-parallel {of}: the {what} cannot be divided by {of}"):
        check_shares(config_of(tmp_path, family), of)


def test_recurrent_layers_are_not_divided(tmp_path: Path) -> None:
    config = config_of(tmp_path, "lfm2")
    check_shares(config, 1)
    with pytest.raises(CheckpointError, match="--tensor-parallel 2: the recurrent layers of Lfm2ForCausalLM"):
        check_shares(config, 2)


def test_inner_widths_that_cannot_be_divided_are_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, "qwen3-moe")
    with pytest.raises(CheckpointError, match="the MLP's inner width of Qwen3MoeForCausalLM, 33,"):
        check_shares(replace(config, intermediate_size=33), 2)
    (experts,) = {experts for experts in config.experts if experts is not None}
    odd = tuple(None if own is None else replace(experts, intermediate_size=33) for own in config.experts)
    with pytest.raises(CheckpointError, match="the inner width of an expert of Qwen3MoeForCausalLM, 33,"):
        check_shares(replace(config, experts=odd), 2)
    shared = tuple(None if own is None else replace(experts, shared_size=33) for own in config.experts)
    with pytest.raises(CheckpointError, match="the inner width of the shared experts of Qwen3MoeForCausalLM, 33,"):
        check_shares(replace(config, experts=shared), 2)


def test_a_norm_of_all_heads_by_their_mean_is_refused(tmp_path: Path) -> None:
    config = replace(config_of(tmp_path, "olmo2"), norms=COHERE)
    check_shares(config, 1)
    with pytest.raises(CheckpointError, match="Olmo2ForCausalLM normalises all heads together"):
        check_shares(config, 2)
