"""Families with experts that take their attention from another family, or choose by scores with a correction."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.activations import laguna_gate
from runtime.checkpoint.families.dense import DENSE_FAMILIES
from runtime.checkpoint.families.experts import (
    deepseek3_experts,
    ernie_experts,
    granite_experts,
    hunyuan_experts,
    laguna_experts,
    minimax_experts,
)
from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_shapes import heads_by_list
from runtime.checkpoint.families.layout import deinterleave, ernie_router, renamed, split_shared_mlp

_ERNIE = DENSE_FAMILIES["Ernie4_5ForCausalLM"]
_HUNYUAN = DENSE_FAMILIES["HunYuanDenseV1ForCausalLM"]
_GRANITE = DENSE_FAMILIES["GraniteForCausalLM"]
_GRANITE_MOE = replace(
    _GRANITE,
    model_type="granitemoe",
    experts=granite_experts,
    defaults={
        **_GRANITE.defaults,
        "default_num_experts": 8,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 0,
    },
)

DEEPSEEK3_GATING = {
    "scoring_func": None,
    "topk_method": None,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}

SPARSE_FAMILIES: dict[str, Family] = {
    "GraniteMoeForCausalLM": _GRANITE_MOE,
    "GraniteMoeSharedForCausalLM": replace(_GRANITE_MOE, model_type="granitemoeshared", layout=(split_shared_mlp,)),
    # GLM-4.5, 4.6 and 4.7.
    "Glm4MoeForCausalLM": Family(
        "glm4_moe",
        qkv_bias="attention_bias",
        output_bias=False,
        qk_norm="shared",
        qk_norm_if="use_qk_norm",
        partial_rotary=True,
        experts=deepseek3_experts,
        defaults={
            **DEEPSEEK3_GATING,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "partial_rotary_factor": 0.5,
            "use_qk_norm": False,
            "n_routed_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1408,
            "routed_scaling_factor": 1.0,
        },
    ),
    # GLM-4.7-Flash.
    "Glm4MoeLiteForCausalLM": Family(
        "glm4_moe_lite",
        qkv_bias="attention_bias",
        latent=True,
        experts=deepseek3_experts,
        defaults={
            **DEEPSEEK3_GATING,
            "rms_norm_eps": 1e-5,
            "q_lora_rank": 768,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 192,
            "qk_rope_head_dim": 64,
            "v_head_dim": 256,
            "rope_interleave": True,
            "n_routed_experts": 64,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1536,
            "routed_scaling_factor": 1.8,
            "bos_token_id": 0,
            "eos_token_id": 1,
        },
    ),
    "MiniMaxM2ForCausalLM": Family(
        "minimax_m2",
        qk_norm="joint",
        qk_norm_if="use_qk_norm",
        partial_rotary=True,
        experts=minimax_experts,
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_theta": 5_000_000.0,
            "use_qk_norm": True,
            "default_num_experts": 256,
            "num_experts_per_tok": 8,
            "bos_token_id": 200034,
            "eos_token_id": 200020,
        },
    ),
    "Ernie4_5_MoeForCausalLM": replace(
        _ERNIE,
        model_type="ernie4_5_moe",
        experts=ernie_experts,
        layout=(deinterleave, ernie_router),
        defaults={
            **_ERNIE.defaults,
            "num_key_value_heads": 4,
            "head_dim": None,
            "moe_k": 6,
            "default_num_experts": 64,
            "moe_intermediate_size": 1536,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": -1,
            "moe_layer_interval": 1,
        },
    ),
    "LagunaForCausalLM": Family(
        "laguna",
        output_gate=laguna_gate,
        qk_norm="shared",
        reads_layer_types=True,
        layer_shapes=heads_by_list,
        local_theta="rope_theta",
        partial_rotary=True,
        experts=laguna_experts,
        layout=(renamed({"self_attn.g_proj": "self_attn.gate_proj"}),),
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_attention_heads_per_layer": None,
            "gating": True,
            "use_sliding_window": True,
            "sliding_window": 512,
            "rope_theta": None,  # only the sets of each type have one
            "rope_parameters": {
                "full_attention": {"rope_theta": 500_000.0, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_theta": 10_000.0},
            },
            "default_num_experts": 256,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
            "moe_routed_scaling_factor": 1.0,
        },
    ),
    "HunYuanMoEV1ForCausalLM": replace(
        _HUNYUAN,
        model_type="hunyuan_v1_moe",
        experts=hunyuan_experts,
        aliases={"num_experts_per_tok": "moe_topk"},
        defaults={**_HUNYUAN.defaults, "default_num_experts": 1, "moe_topk": 1},
    ),
}
