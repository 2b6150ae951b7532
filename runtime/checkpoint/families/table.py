"""The architectures that the decoder computes, each as its differences from plain Llama.

To add a family, read transformers' module of the same name and add an entry to `FAMILIES`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.families.dense import DENSE_FAMILIES
from runtime.checkpoint.families.experts import (
    deepseek2_experts,
    deepseek3_experts,
    gpt_oss_experts,
    mixtral_experts,
    olmoe_experts,
    qwen_experts,
)
from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.gemma import GEMMA_FAMILIES
from runtime.checkpoint.families.hybrid import HYBRID_FAMILIES
from runtime.checkpoint.families.layer_kinds import (
    all_sliding,
    rotates_by_list,
    sliding_above,
    sliding_first,
    sliding_without_rope,
)
from runtime.checkpoint.families.mistral import MISTRAL_FAMILIES
from runtime.checkpoint.families.sparse import SPARSE_FAMILIES
from runtime.checkpoint.mtp_layout import MIMO

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings

_QWEN2 = Family(
    "qwen2",
    qkv_bias=True,
    output_bias=False,
    layer_types=sliding_above,
    reads_layer_types=True,
    defaults={"sliding_window": 4096, "max_window_layers": 28, "num_key_value_heads": 32},
)
_DEEPSEEK = {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "rope_interleave": True,
    "scoring_func": None,
    "moe_layer_freq": 1,
}

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family(
        "llama",
        qkv_bias="attention_bias",
        mlp_bias="mlp_bias",
        defaults={"bos_token_id": 1, "eos_token_id": 2},
    ),
    **MISTRAL_FAMILIES,
    "Qwen2ForCausalLM": _QWEN2,
    # Qwen2 with modules for multi-token prediction; its configuration class is Qwen2's too.
    "MiMoForCausalLM": replace(_QWEN2, model_type="mimo", mtp=MIMO),
    "Qwen3ForCausalLM": replace(
        _QWEN2,
        model_type="qwen3",
        qkv_bias="attention_bias",
        output_bias=None,
        qk_norm="shared",
        defaults={**_QWEN2.defaults, "head_dim": 128},
    ),
    "MixtralForCausalLM": Family(
        "mixtral",
        layer_types=all_sliding,
        experts=mixtral_experts,
        defaults={
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1_000_000.0,
            "use_sliding_window": True,
            "default_num_experts": 8,
            "num_experts_per_tok": 2,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "Qwen3MoeForCausalLM": Family(
        "qwen3_moe",
        qkv_bias="attention_bias",
        qk_norm="shared",
        layer_types=all_sliding,
        experts=qwen_experts,
        defaults={
            "num_key_value_heads": 4,
            "sliding_window": 4096,
            "default_num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "norm_topk_prob": False,
            "decoder_sparse_step": 1,
            "mlp_only_layers": None,
        },
    ),
    "OlmoeForCausalLM": Family(
        "olmoe",
        qkv_bias="attention_bias",
        qk_norm="joint",
        experts=olmoe_experts,
        defaults={
            "rms_norm_eps": 1e-5,
            "default_num_experts": 64,
            "num_experts_per_tok": 8,
            "norm_topk_prob": False,
            "eos_token_id": 50279,
        },
    ),
    "GptOssForCausalLM": Family(
        "gpt_oss",
        qkv_bias="attention_bias",
        layer_types=sliding_first,
        reads_layer_types=True,
        sinks=True,
        experts=gpt_oss_experts,
        defaults={
            "num_key_value_heads": 8,
            "head_dim": 64,
            "rms_norm_eps": 1e-5,
            "rope_theta": 150_000.0,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 32.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            },
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 128,
            "default_num_experts": 128,
            "num_experts_per_tok": 4,
            "swiglu_alpha": 1.702,
            "swiglu_limit": 7.0,
        },
    ),
    "SmolLM3ForCausalLM": Family(
        "smollm3",
        qkv_bias="attention_bias",
        mlp_bias="mlp_bias",
        rotary=rotates_by_list,
        layer_types=sliding_without_rope,
        reads_layer_types=True,
        defaults={
            "num_key_value_heads": 4,
            "rope_theta": 2_000_000.0,
            "tie_word_embeddings": True,
            "bos_token_id": 128000,
            "eos_token_id": 128001,
        },
    ),
    "DeepseekV2ForCausalLM": Family(
        "deepseek_v2",
        qkv_bias="attention_bias",
        latent=True,
        experts=deepseek2_experts,
        defaults={
            **_DEEPSEEK,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "moe_intermediate_size": 1407,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": False,
            "topk_method": "greedy",
            "first_k_dense_replace": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "DeepseekV3ForCausalLM": Family(
        "deepseek_v3",
        qkv_bias="attention_bias",
        latent=True,
        experts=deepseek3_experts,
        defaults={
            **_DEEPSEEK,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_group": 8,
            "topk_group": 4,
            "n_shared_experts": 1,
            "moe_intermediate_size": 2048,
            "routed_scaling_factor": 2.5,
            "norm_topk_prob": True,
            "topk_method": None,
            "first_k_dense_replace": 3,
            "bos_token_id": 0,
            "eos_token_id": 1,
        },
    ),
    **GEMMA_FAMILIES,
    **DENSE_FAMILIES,
    **HYBRID_FAMILIES,
    **SPARSE_FAMILIES,
}

DEFAULTS: Settings = {
    "num_key_value_heads": None,
    "head_dim": None,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 10_000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": None,
    "no_rope_layers": None,
    "no_rope_layer_interval": 4,
    "bos_token_id": None,
    "eos_token_id": None,
}
