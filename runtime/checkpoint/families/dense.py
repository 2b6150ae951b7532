"""Families of one MLP a layer that depart from Llama by other norms, factors, ropes, or names of tensors."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import (
    all_sliding,
    full_at_intervals,
    sliding_rotate,
    sliding_rotate_if_any,
)
from runtime.checkpoint.families.layout import deinterleave, renamed, split_gate_up, split_qkv
from runtime.checkpoint.families.norms import COHERE, GLM4, OLMO2
from runtime.checkpoint.families.scales import cohere_scales, granite_scales

_OLMO2 = Family(
    "olmo2",
    qkv_bias="attention_bias",
    qk_norm="joint",
    norms=OLMO2,
    defaults={"rms_norm_eps": 1e-5, "eos_token_id": 50279},
)
_GLM = Family(
    "glm",
    qkv_bias="attention_bias",
    output_bias=False,
    partial_rotary=True,
    layout=(split_qkv, split_gate_up, deinterleave),
    defaults={
        "num_key_value_heads": 2,
        "head_dim": 128,
        "rms_norm_eps": 1.5625e-07,
        "attention_bias": True,
        "partial_rotary_factor": 0.5,
        "eos_token_id": [151329, 151336, 151338],
    },
)
_COHERE = Family(
    "cohere",
    qkv_bias="attention_bias",
    norms=COHERE,
    scales=cohere_scales,
    layout=(deinterleave,),
    defaults={
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.0625,
        "use_qk_norm": False,
        "tie_word_embeddings": True,
        "rope_theta": 500_000.0,
        "bos_token_id": 5,
        "eos_token_id": 255001,
    },
)

_GRANITE = Family(
    "granite",
    qkv_bias="attention_bias",
    mlp_bias="mlp_bias",
    scales=granite_scales,
    defaults={
        "embedding_multiplier": 1.0,
        "residual_multiplier": 1.0,
        "attention_multiplier": 1.0,
        "logits_scaling": 1.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

DENSE_FAMILIES: dict[str, Family] = {
    "Phi3ForCausalLM": Family(
        "phi3",
        layer_types=all_sliding,
        partial_rotary=True,
        rope_names={"su": "longrope", "yarn": "longrope"},
        layout=(split_qkv, split_gate_up),
        defaults={
            "rms_norm_eps": 1e-5,
            "use_sliding_window": True,
            "original_max_position_embeddings": 4096,
            "bos_token_id": 1,
            "eos_token_id": 32000,
        },
    ),
    "GraniteForCausalLM": _GRANITE,
    "Olmo2ForCausalLM": _OLMO2,
    "Olmo3ForCausalLM": replace(
        _OLMO2,
        model_type="olmo3",
        layer_types=full_at_intervals,
        reads_layer_types=True,
        local_theta="rope_theta",
        defaults={
            **_OLMO2.defaults,
            "rope_theta": 500_000.0,
            "use_sliding_window": True,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
        },
    ),
    "Ernie4_5ForCausalLM": Family(
        "ernie4_5",
        qkv_bias="use_bias",
        mlp_bias="use_bias",
        layout=(deinterleave,),
        defaults={
            "num_key_value_heads": 2,
            "head_dim": 128,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "tie_word_embeddings": True,
            "use_bias": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "SeedOssForCausalLM": Family(
        "seed_oss",
        qkv_bias="attention_bias",
        output_bias="attention_out_bias",
        mlp_bias="mlp_bias",
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_bias": True,
            "attention_out_bias": False,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
    ),
    "Exaone4ForCausalLM": Family(
        "exaone4",
        qk_norm="shared",
        norms=OLMO2,
        layer_types=full_at_intervals,
        reads_layer_types=True,
        rotary=sliding_rotate_if_any,
        defaults={
            "num_key_value_heads": 32,
            "rms_norm_eps": 1e-5,
            "use_sliding_window": True,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
    ),
    "HunYuanDenseV1ForCausalLM": Family(
        "hunyuan_v1_dense",
        qkv_bias="attention_bias",
        qk_norm="shared",
        qk_norm_if="use_qk_norm",
        qk_norm_rotated=True,
        rope_names={"dynamic": "ntk_alpha"},
        layout=(renamed({"query_layernorm": "q_norm", "key_layernorm": "k_norm"}),),
        defaults={"rms_norm_eps": 1e-5, "use_qk_norm": True, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "GlmForCausalLM": _GLM,
    "Glm4ForCausalLM": replace(_GLM, model_type="glm4", norms=GLM4),
    "CohereForCausalLM": replace(_COHERE, qk_norm="by_head", qk_norm_if="use_qk_norm"),
    "Cohere2ForCausalLM": replace(
        _COHERE,
        model_type="cohere2",
        layer_types=full_at_intervals,
        reads_layer_types=True,
        rotary=sliding_rotate,
        defaults={
            **_COHERE.defaults,
            "rope_theta": 10_000.0,
            "use_sliding_window": True,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
        },
    ),
}
