"""Google's Gemma: four norms a layer since the second, and another rope in layers with a window since the third."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.experts import gemma4_experts, no_experts
from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import full_at_intervals
from runtime.checkpoint.families.layer_shapes import (
    borrowed_kv,
    gemma3n_layer_inputs,
    gemma3n_shapes,
    gemma3n_streams,
    gemma4_layer_inputs,
    gemma4_shapes,
    no_layer_inputs,
)
from runtime.checkpoint.families.layout import experts_under_mlp, text_part, without_shared_kv
from runtime.checkpoint.families.norms import GEMMA, GEMMA4_AROUND, GEMMA_AROUND
from runtime.checkpoint.families.scales import (
    gemma2_scales,
    gemma3_scales,
    gemma4_assistant_scales,
    gemma4_scales,
    gemma_scales,
)
from runtime.checkpoint.families.sizes import widest_mlp

_DEFAULTS = {
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "use_sliding_window": True,
    "sliding_window": 4096,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
_GEMMA3 = Family(
    "gemma3_text",
    qkv_bias="attention_bias",
    qk_norm="shared",
    activation_key="hidden_activation",
    norms=GEMMA_AROUND,
    scales=gemma3_scales,
    layer_types=full_at_intervals,
    reads_layer_types=True,
    local_theta="rope_local_base_freq",
    defaults={
        **_DEFAULTS,
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131_072,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "sliding_window_pattern": 6,
        "final_logit_softcapping": None,
    },
)
_GEMMA4_LAYOUT = (experts_under_mlp, without_shared_kv)
_GEMMA4 = replace(
    _GEMMA3,
    model_type="gemma4_text",
    qk_norm="with_values",
    norms=GEMMA4_AROUND,
    scales=gemma4_scales,
    layer_shapes=gemma4_shapes,
    layer_scalars=True,
    layer_inputs=gemma4_layer_inputs,
    experts=gemma4_experts,
    layout=_GEMMA4_LAYOUT,
    defaults={
        **_GEMMA3.defaults,
        "vocab_size": 262_144,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
                "rope_theta": 1_000_000.0,
            },
        },
        "sliding_window": 512,
        "global_head_dim": 512,
        "num_global_key_value_heads": None,
        "per_layer_config": None,
        "attention_k_eq_v": False,
        "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False,
        "enable_moe_block": False,
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144,
    },
)
_GEMMA3N = replace(
    _GEMMA3,
    model_type="gemma3n_text",
    qk_norm="with_values",
    norms=GEMMA4_AROUND,
    scales=gemma4_scales,
    mlp_size=widest_mlp,
    layer_shapes=gemma3n_shapes,
    layer_inputs=gemma3n_layer_inputs,
    streams=gemma3n_streams,
    layout=(without_shared_kv,),
    defaults={
        **_GEMMA3.defaults,
        "vocab_size": 262_400,
        "intermediate_size": 16_384,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "sliding_window": 512,
        "sliding_window_pattern": 5,
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 256,
        "vocab_size_per_layer_input": 262_144,
        "num_kv_shared_layers": 15,
        "activation_sparsity_pattern": None,
        "altup_active_idx": 0,
        "altup_correct_scale": True,
        "altup_num_inputs": 4,
        "laurel_rank": 64,
    },
)
_GEMMA4_UNIFIED = replace(
    _GEMMA4,
    model_type="gemma4_unified_text",
    layer_inputs=no_layer_inputs,
    defaults={**_GEMMA4.defaults, "max_position_embeddings": 262_144, "sliding_window": 1024},
)
# The drafters of Gemma 4, by the text model that they are themselves.  The rows of their embedding are grouped around
# centroids, so that few of them need be scored; here, as in llama.cpp, all are.
_GEMMA4_ASSISTANT = replace(
    _GEMMA4,
    model_type="gemma4_assistant",
    text_config="text_config",
    layer_shapes=borrowed_kv,
    layer_inputs=no_layer_inputs,
    scales=gemma4_assistant_scales,
    experts=no_experts,
    layout=(without_shared_kv,),
    passed_over=("pre_projection.", "post_projection.", "masked_embedding."),
    assists=True,
)

GEMMA_FAMILIES: dict[str, Family] = {
    "GemmaForCausalLM": Family(
        "gemma",
        qkv_bias="attention_bias",
        activation_names={"gelu": "gelu_tanh"},  # what the first published files meant
        norms=GEMMA,
        scales=gemma_scales,
        defaults={**_DEFAULTS, "num_key_value_heads": 16, "hidden_act": "gelu_pytorch_tanh"},
    ),
    "Gemma2ForCausalLM": Family(
        "gemma2",
        qkv_bias="attention_bias",
        activation_key="hidden_activation",
        norms=GEMMA_AROUND,
        scales=gemma2_scales,
        layer_types=full_at_intervals,
        reads_layer_types=True,
        defaults={
            **_DEFAULTS,
            "num_key_value_heads": 4,
            "sliding_window_pattern": 2,
            "final_logit_softcapping": 30.0,
            "attn_logit_softcapping": 50.0,
        },
    ),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": replace(
        _GEMMA3, model_type="gemma3", text_config="text_config", layout=(text_part,)
    ),
    "Gemma3nForCausalLM": _GEMMA3N,
    "Gemma3nForConditionalGeneration": replace(
        _GEMMA3N, model_type="gemma3n", text_config="text_config", layout=(text_part, without_shared_kv)
    ),
    "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4ForConditionalGeneration": replace(
        _GEMMA4, model_type="gemma4", text_config="text_config", layout=(text_part, *_GEMMA4_LAYOUT)
    ),
    "Gemma4AssistantForCausalLM": _GEMMA4_ASSISTANT,
    "Gemma4UnifiedForCausalLM": _GEMMA4_UNIFIED,
    "Gemma4UnifiedForConditionalGeneration": replace(
        _GEMMA4_UNIFIED, model_type="gemma4_unified", text_config="text_config", layout=(text_part, *_GEMMA4_LAYOUT)
    ),
    "Gemma4UnifiedAssistantForCausalLM": replace(
        _GEMMA4_ASSISTANT, model_type="gemma4_unified_assistant", defaults=_GEMMA4_UNIFIED.defaults
    ),
}
