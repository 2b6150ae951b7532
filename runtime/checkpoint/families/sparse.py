"""Families with experts whose routers choose as DeepSeek V3's does: by scores with a correction."""

from __future__ import annotations

from runtime.checkpoint.families.experts import deepseek3_experts
from runtime.checkpoint.families.family import Family

_DEEPSEEK3_GATING = {
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
    # GLM-4.5, 4.6 and 4.7.
    "Glm4MoeForCausalLM": Family(
        "glm4_moe",
        qkv_bias="attention_bias",
        qk_norm="shared",
        qk_norm_if="use_qk_norm",
        partial_rotary=True,
        experts=deepseek3_experts,
        defaults={
            **_DEEPSEEK3_GATING,
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
}
