"""Mistral's own models, and the form of those that read images, too."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.experts import mistral4_experts
from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import all_sliding
from runtime.checkpoint.families.layout import text_part
from runtime.checkpoint.families.scales import ministral3_scales

_YARN = {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
_MISTRAL = Family(
    "mistral",
    layer_types=all_sliding,
    defaults={
        "num_key_value_heads": 8,
        "sliding_window": 4096,
        "use_sliding_window": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

MISTRAL_FAMILIES: dict[str, Family] = {
    "MistralForCausalLM": _MISTRAL,
    "MinistralForCausalLM": replace(_MISTRAL, model_type="ministral", reads_layer_types=True),
    "Ministral3ForCausalLM": replace(
        _MISTRAL,
        model_type="ministral3",
        scales=ministral3_scales,
        defaults={
            **_MISTRAL.defaults,
            "head_dim": 128,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1_000_000.0,
            "rope_parameters": {
                **_YARN,
                "factor": 16.0,
                "original_max_position_embeddings": 16_384,
            },
            "sliding_window": None,
        },
    ),
    # DeepSeek's latent and experts, whose router is Mixtral's.
    "Mistral4ForCausalLM": Family(
        "mistral4",
        qkv_bias="attention_bias",
        scales=ministral3_scales,
        latent=True,
        experts=mistral4_experts,
        defaults={
            "q_lora_rank": 1024,
            "kv_lora_rank": 256,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "rope_interleave": True,
            "rope_parameters": {
                **_YARN,
                "factor": 128.0,
                "original_max_position_embeddings": 8192,
            },
            "n_routed_experts": 128,
            "num_experts_per_tok": 4,
            "n_group": 1,
            "n_shared_experts": 1,
            "moe_intermediate_size": 2048,
            "moe_layer_freq": 1,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": True,
            "first_k_dense_replace": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "Mistral3ForConditionalGeneration": Family(
        "mistral3", text_config="text_config", text_families=("mistral", "ministral3", "mistral4"), layout=(text_part,)
    ),
}
