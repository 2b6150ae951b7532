"""What the published files of families with corrected routers say of their layers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.checkpoint.config import parse_config
from runtime.checkpoint.families.activations import OutputGate
from runtime.checkpoint.layer_config import ExpertsConfig
from runtime.errors import CheckpointError

_SIZES = {"vocab_size": 1000, "hidden_size": 64, "max_position_embeddings": 128}

# zai-org/GLM-4.5-Air, in fewer layers.
GLM_45_AIR = {
    **_SIZES,
    "architectures": ["Glm4MoeForCausalLM"],
    "attention_bias": True,
    "first_k_dense_replace": 1,
    "head_dim": 128,
    "intermediate_size": 10944,
    "model_type": "glm4_moe",
    "moe_intermediate_size": 1408,
    "n_group": 1,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 96,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 3,
    "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 0.5,
    "rope_theta": 1000000,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
    "use_qk_norm": False,
}

# zai-org/GLM-4.7-Flash, likewise.
GLM_47_FLASH = {
    **_SIZES,
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "first_k_dense_replace": 1,
    "intermediate_size": 10240,
    "kv_lora_rank": 512,
    "model_type": "glm4_moe_lite",
    "moe_intermediate_size": 1536,
    "n_group": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 20,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 20,
    "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 1.0,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "routed_scaling_factor": 1.8,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 256,
}

# MiniMaxAI/MiniMax-M2, likewise.
MINIMAX_M2 = {
    **_SIZES,
    "architectures": ["MiniMaxM2ForCausalLM"],
    "attn_type_list": [1, 1, 1],
    "head_dim": 128,
    "intermediate_size": 1536,
    "model_type": "minimax_m2",
    "num_attention_heads": 48,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 3,
    "num_key_value_heads": 8,
    "num_local_experts": 256,
    "qk_norm_type": "per_layer",
    "rotary_dim": 64,
    "scoring_func": "sigmoid",
    "shared_intermediate_size": 0,
    "use_qk_norm": True,
    "use_routing_bias": True,
}

# baidu/ERNIE-4.5-21B-A3B-PT, likewise.
ERNIE = {
    **_SIZES,
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "intermediate_size": 12288,
    "model_type": "ernie4_5_moe",
    "moe_intermediate_size": 1536,
    "moe_k": 6,
    "moe_layer_end_index": 27,
    "moe_layer_interval": 1,
    "moe_layer_start_index": 1,
    "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
    "num_attention_heads": 20,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "hidden_size": 2560,
    "use_bias": False,
}

# tencent/Hunyuan-A13B-Instruct, likewise.
HUNYUAN = {
    **_SIZES,
    "architectures": ["HunYuanMoEV1ForCausalLM"],
    "head_dim": 128,
    "intermediate_size": 3072,
    "model_type": "hunyuan_v1_moe",
    "moe_intermediate_size": [3072, 3072, 3072],
    "moe_topk": [8, 8, 8],
    "num_attention_heads": 32,
    "num_experts": 64,
    "num_hidden_layers": 3,
    "num_key_value_heads": 8,
    "num_shared_expert": [1, 1, 1],
    "use_qk_norm": True,
}

# poolside/Laguna-XS.2, likewise.
LAGUNA = {
    **_SIZES,
    "architectures": ["LagunaForCausalLM"],
    "gating": True,
    "head_dim": 128,
    "intermediate_size": 8192,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    "mlp_only_layers": [0],
    "model_type": "laguna",
    "moe_intermediate_size": 512,
    "moe_routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "num_attention_heads": 48,
    "num_attention_heads_per_layer": [48, 64, 64],
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 3,
    "num_key_value_heads": 8,
    "shared_expert_intermediate_size": 512,
    "sliding_window": 512,
}


@pytest.mark.parametrize(
    ("settings", "plain", "experts"),
    [
        (GLM_45_AIR, 1, ExpertsConfig(128, 8, 1408, "sigmoid", shared_size=1408)),
        (GLM_47_FLASH, 1, ExpertsConfig(64, 4, 1536, "sigmoid", scaling=1.8, shared_size=1536)),
        (MINIMAX_M2, 0, ExpertsConfig(256, 8, 1536, "sigmoid")),
        (ERNIE, 1, ExpertsConfig(64, 6, 1536, "corrected_softmax", shared_size=3072)),
        (HUNYUAN, 0, ExpertsConfig(64, 8, 3072, shared_size=3072)),
        (LAGUNA, 1, ExpertsConfig(256, 8, 512, "sigmoid", scaling=2.5, shared_size=512)),
    ],
    ids=["GLM-4.5-Air", "GLM-4.7-Flash", "MiniMax-M2", "ERNIE-4.5", "Hunyuan-A13B", "Laguna-XS.2"],
)
def test_experts_of_published_files(settings: dict[str, Any], plain: int, experts: ExpertsConfig) -> None:
    config = parse_config(settings)
    assert config.experts == (None,) * plain + (experts,) * (config.num_layers - plain)


@pytest.mark.parametrize("settings", [GLM_45_AIR, MINIMAX_M2])
def test_half_of_a_head_is_rotated(settings: dict[str, Any]) -> None:
    assert [rope.rotary_dim for rope in parse_config(settings).distinct_ropes] == [64]


def test_a_list_says_which_layers_have_experts() -> None:
    config = parse_config({**GLM_47_FLASH, "mlp_layer_types": ["sparse", "dense", "sparse"]})
    assert [one is not None for one in config.experts] == [True, False, True]


def test_layers_of_laguna_differ_in_query_heads_and_ropes() -> None:
    config = parse_config(LAGUNA)
    assert [config.group(layer) for layer in range(3)] == [6, 8, 8]
    assert [rope and (rope.theta, rope.rotary_dim) for rope in config.ropes] == [(5e5, 64), (1e4, 128), (1e4, 128)]
    assert (config.window, config.kv_shape, config.kv_pieces) == ((None, 512, 512), (2, 8, 128), (1, 1, 1))
    assert config.output_gate == OutputGate("softplus", by_head=True)
    alike = parse_config({**LAGUNA, "num_attention_heads_per_layer": [48] * 3, "gating": "per-element"})
    assert (alike.layer_shapes, alike.output_gate) == ((), OutputGate("softplus"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({**GLM_47_FLASH, "mlp_layer_types": ["sparse"]}, "is not dense or sparse for each of 3 layers"),
        (
            {**GLM_47_FLASH, "mlp_layer_types": ["sparse", "dense", "none"]},
            "is not dense or sparse for each of 3 layers",
        ),
        ({**MINIMAX_M2, "attn_type_list": [1, 0, 1]}, r"attn_type_list \[1, 0, 1\] is not supported, only \[1, 1, 1\]"),
        ({**MINIMAX_M2, "shared_intermediate_size": 8}, "shared_intermediate_size 8 is not supported"),
        ({**MINIMAX_M2, "use_routing_bias": False}, "use_routing_bias False is not supported, only True"),
        ({**ERNIE, "use_bias": True}, "use_bias True is not supported, only False"),
        ({**ERNIE, "moe_norm_min": 0.5}, r"moe_norm_min 0\.5 is not supported"),
        ({**ERNIE, "moe_k": 65}, "moe_k 65 is more than the 64 experts"),
        ({**ERNIE, "moe_layer_end_index": None}, "moe_layer_end_index None is not a whole number"),
        ({**HUNYUAN, "moe_topk": [8, 8]}, r"moe_topk \[8, 8\] is not a number for each of 3 layers"),
        ({**HUNYUAN, "num_shared_expert": [2, 2, 2]}, "is not supported, only 1 in all layers is"),
        ({**HUNYUAN, "use_cla": True}, "use_cla True is not supported, only False is"),
        ({**LAGUNA, "mlp_only_layers": [1]}, r"mlp_only_layers \[1\] is not supported, only \[0\] is"),
        ({**LAGUNA, "moe_router_logit_softcapping": 30.0}, "moe_router_logit_softcapping 30.0 is not supported"),
        ({**LAGUNA, "attention_bias": True}, "attention_bias True is not supported"),
        ({**LAGUNA, "gating": False}, "gating False is neither true, 'per-head' nor 'per-element'"),
        ({**LAGUNA, "gating_types": ["per_head", "per_element", "per_head"]}, "is not per-head in all layers"),
        ({**LAGUNA, "num_attention_heads_per_layer": [48, 64]}, "is not a number for each of 3 layers"),
        ({**LAGUNA, "num_attention_heads_per_layer": [48, 64, 60]}, "does not divide the 60 attention heads"),
        ({**LAGUNA, "rope_parameters": {"rope_theta": 1e4}}, "rope_theta None is not a number"),
        ({**MINIMAX_M2, "rotary_dim": 192}, "makes 192 of the 128 numbers of a head rotate"),
    ],
)
def test_refusals_name_the_key(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        parse_config(settings)
