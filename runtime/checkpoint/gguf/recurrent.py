"""The architectures of llama.cpp with recurrent layers; see `architectures`."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.gguf import hybrid
from runtime.checkpoint.gguf.architecture import (
    ATTENTION,
    CORRECTION,
    DEEPSEEK_ABSENT,
    DEEPSEEK_EXPERTS,
    EXPERT_COUNTS,
    EXPERTS,
    GRANITE_KEYS,
    LATENT_ATTENTION,
    LATENT_KEYS,
    MLP,
    MODULES,
    NEXTN,
    NORMS,
    QK_NORM,
    RMS_NORM,
    SHARED_EXPERTS,
    SIGMOID,
    Architecture,
    Key,
)

# Files of LFM2 have the width of the MLP as it is computed.
_LFM2 = Architecture(
    "Lfm2ForCausalLM",
    "lfm2",
    {
        **ATTENTION,
        **QK_NORM,
        **MLP,
        "attn_norm": "operator_norm",
        "ffn_norm": "ffn_norm",
        "shortconv.conv": "conv.conv",
        "shortconv.in_proj": "conv.in_proj",
        "shortconv.out_proj": "conv.out_proj",
    },
    keys={
        "attention.layer_norm_rms_epsilon": Key("norm_eps", float, required=True),
        "shortconv.l_cache": Key("conv_L_cache", required=True),
    },
    settings={"block_auto_adjust_ff_dim": False},
    more_keys=hybrid.LFM2_KEYS,
    more_settings=hybrid.lfm2_settings,
    restored=hybrid.restored_kernels,
)

_DELTA = {
    **ATTENTION,
    **QK_NORM,
    **NEXTN,
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_a": "linear_attn.A_log",
    "ssm_dt": "linear_attn.dt_bias",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_DELTA_KEYS = {
    **RMS_NORM,
    "ssm.conv_kernel": Key("linear_conv_kernel_dim", required=True),
    "ssm.state_size": Key("linear_key_head_dim", required=True),
    "ssm.group_count": Key("linear_num_key_heads", required=True),
    "ssm.time_step_rank": Key("linear_num_value_heads", required=True),
    "full_attention_interval": Key("full_attention_interval"),
    "nextn_predict_layers": Key(MODULES),
}
_DELTA_EXPERTS = {
    **EXPERTS,
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
_DELTA_EXPERT_KEYS = {
    **EXPERT_COUNTS,
    "feed_forward_length": Key("intermediate_size"),  # of no layer
    "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
    "expert_shared_feed_forward_length": Key("shared_expert_intermediate_size", required=True),
}
_BETA_ALPHA = {"ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a"}
_QWEN3_5 = Architecture(
    "Qwen3_5ForCausalLM",
    "qwen3_5_text",
    {**_DELTA, **MLP, **_BETA_ALPHA},
    keys=_DELTA_KEYS,
    settings={"partial_rotary_factor": 1.0},
    added_to_norms=1.0,
    attention_bias="attention_bias",
    more_keys=hybrid.QWEN_KEYS,
    more_settings=hybrid.qwen_settings,
    restored=hybrid.restored_tiled_delta,
)

_MAMBA = {
    "ssm_in": "mamba.in_proj",
    "ssm_conv1d": "mamba.conv1d",
    "ssm_a": "mamba.A_log",
    "ssm_d": "mamba.D",
    "ssm_dt": "mamba.dt_bias",
    "ssm_norm": "mamba.norm",
    "ssm_out": "mamba.out_proj",
}
_MAMBA_KEYS = {
    "ssm.inner_size": Key("mamba_d_ssm", required=True),
    "ssm.time_step_rank": Key("mamba_n_heads", required=True),
    "ssm.group_count": Key("mamba_n_groups", required=True),
    "ssm.state_size": Key("mamba_d_state", required=True),
    "ssm.conv_kernel": Key("mamba_d_conv", required=True),
}
# Without a gate: an activation of Nemotron's is a square.
_NEMOTRON = Architecture(
    "NemotronHForCausalLM",
    "nemotron_h",
    {**ATTENTION, **_MAMBA, "attn_norm": "norm", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"},
    keys={
        "attention.layer_norm_epsilon": Key("layer_norm_epsilon", float),
        "attention.layer_norm_rms_epsilon": Key("layer_norm_epsilon", float),  # comes first, where both are there
        "ssm.time_step_rank": Key("mamba_num_heads", required=True),
        "ssm.group_count": Key("n_groups", required=True),
        "ssm.state_size": Key("ssm_state_size", required=True),
        "ssm.conv_kernel": Key("conv_kernel", required=True),
    },
    permuted=True,
    mlp_bias="mlp_bias",
    told={"ssm_conv1d.bias": "use_conv_bias"},
    more_keys=hybrid.NEMOTRON_KEYS,
    more_settings=hybrid.nemotron_settings,
    restored=hybrid.restored_nemotron,
)

RECURRENT = {
    "lfm2": _LFM2,
    "lfm2moe": replace(
        _LFM2,
        name="Lfm2MoeForCausalLM",
        model_type="lfm2_moe",
        tensors={**_LFM2.tensors, **EXPERTS, "exp_probs_b": CORRECTION},
        keys={
            **_LFM2.keys,
            **EXPERT_COUNTS,
            "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
            "leading_dense_block_count": Key("num_dense_layers"),
        },
        fixed=SIGMOID,
        settings={"num_dense_layers": 0, "routed_scaling_factor": 1.0},
    ),
    # `ssm_in` is of old files: all projections of a head of keys together.
    "qwen3next": replace(
        _QWEN3_5,
        name="Qwen3NextForCausalLM",
        model_type="qwen3_next",
        tensors={
            **_DELTA,
            **_DELTA_EXPERTS,
            "ssm_in": "linear_attn.in_proj_qkvz",
            "ssm_ba": "linear_attn.in_proj_ba",
        },
        keys={**_DELTA_KEYS, **_DELTA_EXPERT_KEYS},
        restored=hybrid.restored_delta,
    ),
    "qwen35": _QWEN3_5,
    "qwen35moe": replace(
        _QWEN3_5,
        name="Qwen3_5MoeForCausalLM",
        model_type="qwen3_5_moe_text",
        tensors={**_DELTA, **_DELTA_EXPERTS, **_BETA_ALPHA},
        keys={**_DELTA_KEYS, **_DELTA_EXPERT_KEYS},
    ),
    # What Falcon's factors multiply is multiplied in the file, so they are 1, as where nothing is said.
    "falcon-h1": Architecture(
        "FalconH1ForCausalLM",
        "falcon_h1",
        {**ATTENTION, **MLP, **_MAMBA, "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm.weight"},
        keys={**RMS_NORM, **_MAMBA_KEYS},
        settings={"mamba_norm_before_gate": False},
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
        told={"ssm_conv1d.bias": "mamba_conv_bias", "ssm_norm.weight": "mamba_rms_norm"},
        restored=hybrid.restored_mamba,
    ),
    # Bamba is of this architecture, too, and its files lack the scale.
    "granitehybrid": Architecture(
        "GraniteMoeHybridForCausalLM",
        "granitemoehybrid",
        {**ATTENTION, **MLP, **NORMS, **SHARED_EXPERTS, **_MAMBA},
        keys={
            **GRANITE_KEYS,
            **_MAMBA_KEYS,
            "attention.scale": Key("attention_multiplier", float, required=True),
            "expert_count": Key("num_local_experts"),
            "expert_used_count": Key("num_experts_per_tok"),
            "expert_shared_feed_forward_length": Key("shared_intermediate_size"),
        },
        settings={"num_local_experts": 0},
        permuted=True,
        attention_bias="attention_bias",
        told={"ssm_conv1d.bias": "mamba_conv_bias"},
        more_keys=hybrid.GRANITE_KEYS,
        more_settings=hybrid.granite_settings,
        restored=hybrid.restored_mamba,
    ),
    "kimi-linear": Architecture(
        "KimiLinearForCausalLM",
        "kimi_linear",
        {
            **ATTENTION,
            **LATENT_ATTENTION,
            **NORMS,
            **MLP,
            **SHARED_EXPERTS,
            "ssm_conv1d_q": "self_attn.q_conv1d",
            "ssm_conv1d_k": "self_attn.k_conv1d",
            "ssm_conv1d_v": "self_attn.v_conv1d",
            "ssm_f_a": "self_attn.f_a_proj",
            "ssm_f_b": "self_attn.f_b_proj",
            "ssm_g_a": "self_attn.g_a_proj",
            "ssm_g_b": "self_attn.g_b_proj",
            "ssm_beta": "self_attn.b_proj",
            "ssm_a": "self_attn.A_log",
            "ssm_dt": "self_attn.dt_bias",
            "ssm_norm": "self_attn.o_norm",
        },
        keys={
            **RMS_NORM,
            **DEEPSEEK_EXPERTS,
            **LATENT_KEYS,
            "kda.head_dim": Key("linear_head_dim", required=True),
            "ssm.conv_kernel": Key("linear_conv_kernel_dim", required=True),
        },
        fixed=SIGMOID,
        settings={**DEEPSEEK_ABSENT, "norm_topk_prob": True, "q_lora_rank": None},
        more_keys=hybrid.KIMI_KEYS,
        more_settings=hybrid.kimi_settings,
        restored=hybrid.restored_kimi,
    ),
    "nemotron_h": _NEMOTRON,
    "nemotron_h_moe": replace(
        _NEMOTRON,
        tensors={
            **_NEMOTRON.tensors,
            **SHARED_EXPERTS,
            **NEXTN,
            "ffn_latent_down": "mlp.fc1_latent_proj",
            "ffn_latent_up": "mlp.fc2_latent_proj",
            "post_attention_norm": "post_attention_layernorm",  # of a module
        },
        keys={
            **_NEMOTRON.keys,
            **DEEPSEEK_EXPERTS,
            "expert_shared_feed_forward_length": Key("moe_shared_expert_intermediate_size", required=True),
            "moe_latent_size": Key("moe_latent_size"),
        },
        fixed=SIGMOID,
        settings=DEEPSEEK_ABSENT,
        mlp_bias=None,
    ),
}
