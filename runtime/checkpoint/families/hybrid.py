"""Families of which most layers are recurrent, and few attend."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.families.activations import sigmoid_gate
from runtime.checkpoint.families.dense import DENSE_FAMILIES
from runtime.checkpoint.families.experts import (
    granite_hybrid_experts,
    kimi_experts,
    lfm2_experts,
    nemotron_experts,
    no_experts,
    qwen_shared_experts,
)
from runtime.checkpoint.families.family import Family
from runtime.checkpoint.families.layer_kinds import (
    BESIDE,
    CONV,
    EXPERTS,
    LINEAR,
    MLP,
    all_beside,
    all_linear,
    attention_by_number,
    kimi_layers,
    linear_at_intervals,
    none_rotate,
    rotates_by_name,
    rotates_by_theta,
)
from runtime.checkpoint.families.layer_shapes import mlps_alone
from runtime.checkpoint.families.layout import (
    NEMOTRON_MODULE,
    QWEN_MODULE,
    join_convolutions,
    mixers_by_kind,
    module_behind_layers,
    renamed,
    split_delta,
    split_query_gate,
    split_shared_mlp,
    text_part,
)
from runtime.checkpoint.families.norms import GEMMA, LFM2, NEMOTRON, OLMO_HYBRID
from runtime.checkpoint.families.recurrent import (
    falcon_mamba,
    gated_delta,
    kimi_delta,
    mamba2,
    nemotron_mamba,
    no_mixer,
    olmo_delta,
    short_conv,
)
from runtime.checkpoint.families.scales import falcon_scales
from runtime.checkpoint.families.sizes import granite_mlp, lfm2_mlp, plain_mlp
from runtime.checkpoint.families.sparse import DEEPSEEK3_GATING

_LFM2 = Family(
    "lfm2",
    norms=LFM2,
    qk_norm="shared",
    mlp_size=lfm2_mlp,
    layer_types=attention_by_number,
    reads_layer_types=True,
    recurrent={CONV: short_conv},
    layout=(
        renamed(
            {
                "model.embedding_norm": "model.norm",
                "self_attn.out_proj": "self_attn.o_proj",
                "self_attn.q_layernorm": "self_attn.q_norm",
                "self_attn.k_layernorm": "self_attn.k_norm",
                "feed_forward": "mlp",
                "mlp.w1": "mlp.gate_proj",
                "mlp.w3": "mlp.up_proj",
                "mlp.w2": "mlp.down_proj",
            }
        ),
    ),
    aliases={"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"},
    defaults={
        "num_key_value_heads": 8,
        "norm_eps": 1e-5,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "full_attn_idxs": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

_QWEN3_NEXT = Family(
    "qwen3_next",
    qkv_bias="attention_bias",
    output_gate=sigmoid_gate,
    norms=GEMMA,
    qk_norm="shared",
    layer_types=linear_at_intervals,
    reads_layer_types=True,
    recurrent={LINEAR: gated_delta},
    partial_rotary=True,
    experts=qwen_shared_experts,
    layout=(module_behind_layers(QWEN_MODULE), split_query_gate, split_delta),
    passed_over=("mtp.",),  # further layers of the module
    defaults={
        "intermediate_size": 5632,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "max_position_embeddings": 32768,
        "partial_rotary_factor": 0.25,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "default_num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": None,
    },
)
_QWEN3_5 = replace(
    _QWEN3_NEXT,
    model_type="qwen3_5_text",
    experts=no_experts,
    layout=(text_part, module_behind_layers(QWEN_MODULE), split_query_gate),
    defaults={**_QWEN3_NEXT.defaults, "num_key_value_heads": 4},
)
_QWEN3_5_MOE = replace(
    _QWEN3_5,
    model_type="qwen3_5_moe_text",
    experts=qwen_shared_experts,
    defaults={**_QWEN3_NEXT.defaults, "default_num_experts": 256, "num_experts_per_tok": 8},
)

# As transformers names them in the place of Qwen's.
_DELTA_NAMES = {
    "linear_attn.g_proj": "linear_attn.in_proj_z",
    "linear_attn.a_proj": "linear_attn.in_proj_a",
    "linear_attn.b_proj": "linear_attn.in_proj_b",
    "linear_attn.o_norm": "linear_attn.norm",
    "linear_attn.o_proj": "linear_attn.out_proj",
}
_OLMO = Family(
    "olmo_hybrid",
    qkv_bias="attention_bias",
    qk_norm="joint",
    norms=OLMO_HYBRID,
    layer_types=linear_at_intervals,
    reads_layer_types=True,
    rotary=rotates_by_theta,
    recurrent={LINEAR: olmo_delta},
    layout=(
        renamed(
            {
                "attention_layer_norm": "input_layernorm",
                "feedforward_layer_norm": "post_attention_layernorm",
                **_DELTA_NAMES,
            }
        ),
        join_convolutions,
    ),
    defaults={
        "full_attention_interval": 4,
        "linear_num_key_heads": None,
        "linear_num_value_heads": None,
        "linear_key_head_dim": None,
        "linear_value_head_dim": None,
        "linear_conv_kernel_dim": 4,
        "linear_allow_neg_eigval": True,
        "eos_token_id": 100257,
    },
)

_KIMI = Family(
    "kimi_linear",
    qkv_bias="attention_bias",
    latent=True,
    layer_types=kimi_layers,
    reads_layer_types=True,
    rotary=none_rotate,
    recurrent={LINEAR: kimi_delta},
    experts=kimi_experts,
    layout=(
        mixers_by_kind,
        renamed(
            {
                **_DELTA_NAMES,
                "linear_attn.g_a_proj": "linear_attn.in_proj_z",
                "linear_attn.g_b_proj": "linear_attn.z_up_proj",
                "linear_attn.f_a_proj": "linear_attn.in_proj_a",
                "linear_attn.f_b_proj": "linear_attn.a_up_proj",
            }
        ),
        join_convolutions,
    ),
    aliases={
        "model_max_length": "max_position_embeddings",
        "num_experts_per_token": "num_experts_per_tok",
        "num_expert_group": "n_group",
        "moe_renormalize": "norm_topk_prob",
        "num_shared_experts": "n_shared_experts",
        "qk_rope_head_dim": "head_dim",  # which files have another number for, that nothing reads
    },
    defaults={
        "num_key_value_heads": 32,
        "max_position_embeddings": 1_048_576,
        "rms_norm_eps": 1e-5,
        "q_lora_rank": None,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "rope_interleave": False,
        "linear_attn_config": {},
        "linear_num_heads": 32,
        "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        **DEEPSEEK3_GATING,
        "default_num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1024,
        "routed_scaling_factor": 2.446,
        "bos_token_id": 163584,
        "eos_token_id": 163586,
    },
)

_NEMOTRON = Family(
    "nemotron_h",
    mlp_bias="mlp_bias",
    norms=NEMOTRON,
    activation_key="mlp_hidden_act",
    activation_names={"relu2": "relu2"},
    layer_types=all_linear,
    reads_layer_types=True,
    recurrent={LINEAR: nemotron_mamba, MLP: no_mixer, EXPERTS: no_mixer},
    layer_shapes=mlps_alone,
    rotary=none_rotate,
    experts=nemotron_experts,
    layout=(
        renamed({"backbone": "model", "model.embeddings": "model.embed_tokens", "model.norm_f": "model.norm"}),
        module_behind_layers(NEMOTRON_MODULE),
        mixers_by_kind,
    ),
    passed_over=("mtp.",),  # further layers of the module, and modules of another form
    aliases={"hybrid_override_pattern": "layer_types", "layers_block_type": "layer_types"},
    defaults={
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 21504,
        "max_position_embeddings": 4096,
        "mlp_hidden_act": "relu2",
        "layer_norm_epsilon": 1e-5,
        "mamba_hidden_act": "silu",
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": None,
        "default_num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 7688,
        "moe_shared_expert_intermediate_size": 7688,
        "moe_latent_size": None,
        "moe_layer_freq": 1,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

_FALCON = Family(
    "falcon_h1",
    qkv_bias="attention_bias",
    mlp_bias="mlp_bias",
    scales=falcon_scales,
    layer_types=all_beside,
    recurrent={BESIDE: falcon_mamba},
    layout=(
        renamed(
            {
                "model.final_layernorm": "model.norm",
                "pre_ff_layernorm": "post_attention_layernorm",
                "feed_forward": "mlp",
            }
        ),
    ),
    defaults={
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "mamba_d_ssm": 1024,
        "mamba_n_heads": 128,
        "mamba_d_head": "auto",
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "mamba_norm_before_gate": True,
        "mamba_rms_norm": False,
        "time_step_limit": None,
        "projectors_bias": False,
        **dict.fromkeys(("embedding_multiplier", "lm_head_multiplier", "key_multiplier"), 1.0),
        **dict.fromkeys(("attention_in_multiplier", "attention_out_multiplier"), 1.0),
        **dict.fromkeys(("ssm_in_multiplier", "ssm_out_multiplier"), 1.0),
        "ssm_multipliers": [1.0] * 5,
        "mlp_multipliers": [1.0] * 2,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
)

HYBRID_FAMILIES: dict[str, Family] = {
    "Lfm2ForCausalLM": _LFM2,
    "Lfm2MoeForCausalLM": replace(
        _LFM2,
        model_type="lfm2_moe",
        mlp_size=plain_mlp,
        experts=lfm2_experts,
        defaults={
            **_LFM2.defaults,
            "default_num_experts": 32,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1792,
            "num_dense_layers": 2,
            "use_expert_bias": True,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": True,
        },
    ),
    "FalconH1ForCausalLM": _FALCON,
    "GraniteMoeHybridForCausalLM": replace(
        DENSE_FAMILIES["GraniteForCausalLM"],
        model_type="granitemoehybrid",
        mlp_bias=False,
        mlp_size=granite_mlp,
        layer_types=all_linear,
        reads_layer_types=True,
        rotary=rotates_by_name,
        recurrent={LINEAR: mamba2},
        experts=granite_hybrid_experts,
        layout=(split_shared_mlp,),
        aliases={"layers_block_type": "layer_types"},
        defaults={
            **DENSE_FAMILIES["GraniteForCausalLM"].defaults,
            "position_embedding_type": None,
            "intermediate_size": 11008,
            "shared_intermediate_size": 1024,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "mamba_n_heads": 128,
            "mamba_n_groups": 1,
            "mamba_d_state": 256,
            "mamba_d_head": "auto",
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_conv_bias": True,
            "mamba_proj_bias": False,
            "time_step_limit": None,
        },
    ),
    "KimiLinearForCausalLM": _KIMI,
    "NemotronHForCausalLM": _NEMOTRON,
    "OlmoHybridForCausalLM": _OLMO,
    "Qwen3NextForCausalLM": _QWEN3_NEXT,
    "Qwen3_5ForCausalLM": _QWEN3_5,
    "Qwen3_5ForConditionalGeneration": replace(_QWEN3_5, model_type="qwen3_5", text_config="text_config"),
    "Qwen3_5MoeForCausalLM": _QWEN3_5_MOE,
    "Qwen3_5MoeForConditionalGeneration": replace(_QWEN3_5_MOE, model_type="qwen3_5_moe", text_config="text_config"),
}
