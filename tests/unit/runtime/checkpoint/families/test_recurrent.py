"""Recurrent layers as files describe them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.layer_config import ExpertsConfig
from runtime.checkpoint.open import open_checkpoint
from runtime.checkpoint.recurrent_config import (
    BesideAttentionConfig,
    GatedDeltaConfig,
    Mamba2Config,
    NoMixerConfig,
    ShortConvConfig,
    StatePart,
)
from runtime.errors import CheckpointError
from runtime.loading.mtp_weights import missing_mtp
from runtime.nn.weights import load_weights
from tests.models.checkpoints import FAMILIES
from tests.rows import every_row

if TYPE_CHECKING:
    from pathlib import Path

LFM2 = {  # as the published files of LFM2-350M have it
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "block_ff_dim": 6656,
    "conv_L_cache": 3,
    "conv_bias": False,
    "full_attn_idxs": [2, 4],
    "hidden_size": 1024,
    "intermediate_size": 6656,
    "max_position_embeddings": 128_000,
    "norm_eps": 1e-05,
    "num_attention_heads": 16,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "rope_theta": 1_000_000.0,
    "tie_embedding": True,
    "vocab_size": 65536,
}

QWEN3_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "vocab_size": 151936,
}

GRANITE = {  # as the published files of Granite 4.0 H Micro have it, with fewer layers
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "layer_types": ["mamba", "mamba", "attention"],
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_heads": 64,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_experts_per_tok": 0,
    "num_hidden_layers": 3,
    "num_key_value_heads": 8,
    "num_local_experts": 0,
    "position_embedding_type": "nope",
    "shared_intermediate_size": 8192,
    "vocab_size": 100352,
}


def test_the_keys_of_published_files_are_read() -> None:
    config = parse_config(LFM2)
    conv = ShortConvConfig(channels=1024, width=3, bias=False)
    assert config.recurrent == (conv, conv, None, conv, None)
    assert config.states[:3] == ((StatePart((2, 1024)),), (StatePart((2, 1024)),), None)
    assert (config.kv_pieces, config.is_hybrid) == ((0, 0, 1, 0, 1), True)
    assert (config.intermediate_size, config.tied_embeddings) == (4608, True)


def test_keys_that_files_leave_out_mean_what_they_mean_in_transformers() -> None:
    config = parse_config(QWEN3_NEXT)
    linear = GatedDeltaConfig(width=4, key_heads=16, heads=32, key_dim=128, value_dim=128)
    assert config.recurrent == (linear, linear, linear, None) * 2
    assert config.states[0] == (StatePart((3, 8192)), StatePart((32, 128, 128), float32=True))
    (rope,) = config.distinct_ropes
    assert (rope.rotary_dim, config.head_dim, config.kv_shape) == (64, 256, (2, 2, 256))
    assert config.experts[0] == ExpertsConfig(512, 10, 512, shared_size=512, shared_gate=True)


def test_the_names_of_layers_in_older_files_are_known() -> None:
    config = parse_config(GRANITE)
    mamba = Mamba2Config(width=4, heads=64, head_dim=64, groups=1, size=128, bias=False, conv_bias=True)
    assert config.recurrent == (mamba, mamba, None)
    assert config.states[0] == (StatePart((3, 4352)), StatePart((64, 64, 128), float32=True))
    assert (config.ropes, config.experts) == ((None,) * 3, (None,) * 3)
    plain = parse_config({**GRANITE, "layer_types": ["attention"] * 3, "position_embedding_type": "rope"})
    assert (plain.is_hybrid, len(plain.distinct_ropes)) == (False, 1)


OLMO = {
    "architectures": ["OlmoHybridForCausalLM"],
    "model_type": "olmo_hybrid",
    "hidden_size": 3840,
    "intermediate_size": 11008,
    "max_position_embeddings": 65536,
    "num_attention_heads": 30,
    "num_hidden_layers": 4,
    "vocab_size": 100352,
}


def test_sizes_of_olmo_are_shares_of_the_model() -> None:
    config = parse_config({**OLMO, "rope_parameters": {"rope_theta": None}})
    linear = GatedDeltaConfig(4, 30, 30, key_dim=96, value_dim=192, beta=2.0, is_split=True, norm_eps=1e-5)
    assert config.recurrent == (linear, linear, linear, None)
    assert config.distinct_ropes == ()
    plain = parse_config({**OLMO, "linear_allow_neg_eigval": False})
    assert (plain.recurrent[0], len(plain.distinct_ropes)) == (replace(linear, beta=1.0), 1)


FALCON = {
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "attention_in_multiplier": 0.5,
    "attention_out_multiplier": 0.5,
    "hidden_size": 1024,
    "mamba_d_ssm": 1536,
    "mamba_n_heads": 24,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "ssm_in_multiplier": 2.0,
    "ssm_multipliers": [0.5, 1.0, 0.25, 1.0, 0.5],
    "ssm_out_multiplier": 0.25,
    "vocab_size": 32784,
}


def test_layers_of_falcon_have_a_state_and_kv() -> None:
    config = parse_config(FALCON)
    factors = (1.0, 2.0, 0.5, 2.0, 1.0)
    mamba = Mamba2Config(4, 24, 64, 1, 256, bias=False, conv_bias=True, has_norm=False, norm_before_gate=True)
    assert config.recurrent == (BesideAttentionConfig(replace(mamba, factors=factors), 0.25, 0.25),) * 2
    assert config.states == ((StatePart((3, 2048)), StatePart((24, 64, 256), float32=True)),) * 2
    assert (config.kv_pieces, config.is_hybrid, len(config.distinct_ropes)) == ((1, 1), True, 1)


@every_row(
    "settings, key",
    [
        ({"attention_bias": True}, "attention_in_multiplier"),
        ({"mamba_proj_bias": True}, "ssm_in_multiplier"),
        ({"mamba_d_ssm": 1000}, "mamba_n_heads"),
        ({"mlp_multipliers": [1.0]}, "mlp_multipliers"),
        ({"ssm_multipliers": None}, "ssm_multipliers"),
        ({"key_multiplier": 0.0}, "key_multiplier"),
        ({"layer_types": ["linear_attention"] * 2}, "layer_types"),
    ],
)
def test_what_is_not_computed_of_falcon_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**FALCON, **settings})


NEMOTRON = {  # as the published files of Nemotron 3 Nano have it, with fewer layers
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "head_dim": 128,
    "hidden_size": 2688,
    "hybrid_override_pattern": "ME*-",
    "intermediate_size": 1856,
    "mamba_num_heads": 64,
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "num_attention_heads": 32,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "routed_scaling_factor": 2.5,
    "vocab_size": 131072,
}


def test_a_layer_of_nemotron_is_one_part() -> None:
    config = parse_config(NEMOTRON)
    mamba = Mamba2Config(width=4, heads=64, head_dim=64, groups=8, size=128, bias=False, conv_bias=True)
    assert config.recurrent == (mamba, NoMixerConfig(), None, NoMixerConfig())
    assert config.kv_pieces == (0, 0, 1, 0)
    experts = ExpertsConfig(128, 6, 1856, "sigmoid", scaling=2.5, shared_size=3712)
    assert config.experts == (None, experts, None, None)
    assert parse_config({**NEMOTRON, "moe_latent_size": 1024}).experts[1] == replace(experts, latent_size=1024)
    assert [config.shape(layer).intermediate_size for layer in range(4)] == [0, 1856, 0, 1856]
    named = {**NEMOTRON, "layers_block_type": ["mamba", "moe", "attention", "mlp"]}
    assert parse_config({key: named[key] for key in named.keys() - {"num_hidden_layers"}}) == config


@every_row(
    "settings, key",
    [
        ({"hybrid_override_pattern": "MEX-"}, "layer_types"),
        ({"hybrid_override_pattern": "MEM-"}, "layer_types"),
        ({"hybrid_override_pattern": "ME*"}, "layer_types"),
        ({"mamba_num_heads": 60}, "mamba_num_heads"),
        ({"mamba_hidden_act": "gelu"}, "mamba_hidden_act"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"mlp_hidden_act": "silu"}, "mlp_hidden_act"),
        ({"moe_latent_size": 0}, "moe_latent_size"),
        ({"time_step_limit": [0.001, 0.1]}, "time_step_limit"),
    ],
)
def test_what_is_not_computed_of_nemotron_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**NEMOTRON, **settings})


KIMI_LINEAR = {
    "full_attn_layers": [3],
    "head_dim": 128,
    "kda_layers": [1, 2, 4],
    "num_heads": 32,
    "short_conv_kernel_size": 4,
}
KIMI = {  # as the published files of Kimi Linear have it, with fewer layers
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "first_k_dense_replace": 1,
    "head_dim": 72,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "kv_lora_rank": 512,
    "linear_attn_config": KIMI_LINEAR,
    "mla_use_nope": True,
    "model_max_length": 1_048_576,
    "moe_intermediate_size": 1024,
    "moe_layer_freq": 1,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_attention_heads": 32,
    "num_expert_group": 1,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 32,
    "num_shared_experts": 1,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_theta": 10000.0,
    "routed_scaling_factor": 2.446,
    "topk_group": 1,
    "use_grouped_topk": True,
    "v_head_dim": 128,
    "vocab_size": 163840,
}


def test_kimi_attends_over_a_latent_without_rotating_it() -> None:
    config = parse_config(KIMI)
    linear = GatedDeltaConfig(4, 32, 32, key_dim=128, value_dim=128, is_split=True, gate_rank=128)
    assert config.recurrent == (linear, linear, None, linear)
    assert config.states[0] == (StatePart((3, 12288)), StatePart((32, 128, 128), float32=True))
    assert (config.distinct_ropes, config.kv_shape, config.kv_pieces) == ((), (1, 1, 576), (0, 0, 1, 0))
    experts = ExpertsConfig(256, 8, 1024, "sigmoid", scaling=2.446, shared_size=1024)
    assert config.experts == (None, experts, experts, experts)
    assert (config.context_length, config.latent and config.latent.scale) == (1_048_576, 192**-0.5)
    unnamed = {**KIMI, "linear_attn_config": {}, "num_hidden_layers": 6}
    assert [layer is None for layer in parse_config(unnamed).recurrent] == [False] * 4 + [True, False]


@every_row(
    "settings, key",
    [
        ({"linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2]}}, "linear_attn_config"),
        ({"linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2, 3, 4]}}, "linear_attn_config"),
        ({"linear_attn_config": {"full_attn_layers": [3], "kda_layers": "124"}}, "linear_attn_config"),
        ({"linear_attn_config": {"full_attn_layers": [3]}}, "linear_attn_config"),
        ({"linear_attn_config": [3]}, "linear_attn_config"),
        ({"linear_attn_config": {**KIMI_LINEAR, "head_dim": 0}}, "linear_head_dim"),
        ({"hidden_act": "gelu_pytorch_tanh"}, "hidden_act"),
        ({"mla_use_nope": False}, "mla_use_nope"),
        ({"moe_router_activation_func": "softmax"}, "moe_router_activation_func"),
        ({"use_grouped_topk": False}, "use_grouped_topk"),
    ],
)
def test_what_is_not_computed_of_kimi_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**KIMI, **settings})


@every_row(
    "settings, size",
    [
        ({"block_ff_dim": 12288}, 8192),
        ({"block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.01}, 8448),
        ({"block_ff_dim": 100, "block_ffn_dim_multiplier": None}, 66),
        ({"block_ff_dim": 100, "block_auto_adjust_ff_dim": False}, 100),
    ],
)
def test_the_inner_width_is_adjusted_as_transformers_does(settings: dict[str, Any], size: int) -> None:
    assert parse_config({**LFM2, **settings}).intermediate_size == size


@every_row(
    "settings, key",
    [
        ({"full_attn_idxs": []}, "layer_types"),
        ({"full_attn_idxs": ["2"]}, "full_attn_idxs"),
        ({"layer_types": ["conv"] * 5}, "layer_types"),
        ({"layer_types": ["conv"] * 4 + ["sliding_attention"]}, "layer_types"),
        ({"layer_types": ["conv", "full_attention"]}, "layer_types"),
        ({"conv_L_cache": 0}, "conv_L_cache"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**LFM2, **settings})


@every_row(
    "settings, key",
    [
        ({"full_attention_interval": 9}, "layer_types"),
        ({"linear_num_value_heads": 24}, "linear_num_value_heads"),
        ({"hidden_act": "gelu_pytorch_tanh"}, "hidden_act"),
    ],
)
def test_what_is_not_computed_of_linear_attention_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**QWEN3_NEXT, **settings})


@every_row(
    "settings, key",
    [
        ({"layer_types": None}, "layer_types"),
        ({"mamba_n_heads": 48}, "mamba_n_heads"),
        ({"mamba_n_groups": 3}, "mamba_n_heads"),
        ({"mamba_d_head": 32}, "mamba_d_head"),
        ({"time_step_limit": [0.001, 0.1]}, "time_step_limit"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type"),
    ],
)
def test_what_is_not_computed_of_mamba_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        parse_config({**GRANITE, **settings})


def test_a_module_for_multi_token_prediction_is_passed_over_and_named(tmp_path: Path) -> None:
    """Some published files have one that cede does not compute."""
    FAMILIES["nemotron-h"](tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"mtp.fc.weight": torch.zeros(1)}, path)
    checkpoint = open_checkpoint(tmp_path)
    assert load_weights(checkpoint, device="cpu", dtype=torch.float32).nbytes
    assert "mtp.fc.weight is of a form that is not known" in str(missing_mtp(checkpoint))
