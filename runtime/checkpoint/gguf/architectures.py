"""The architectures of llama.cpp that cede reads: which keys and tensor names they have, and what these mean.

A key is that of the file without the architecture's name before it (`attention.head_count`); a setting is that of
Hugging Face's config.json.  Sources: llama.cpp's conversion modules, which write the files, and its `load_arch_hparams`
and `load_arch_tensors` functions, which say what absent keys mean.

To add one, read these, and add an entry to `ARCHITECTURES`.  What an entry does not name is refused.
"""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.gguf import deepseek, gemma3n, gemma4, hybrid
from runtime.checkpoint.gguf.architecture import (
    CORRECTION,
    MODULES,
    RATE,
    RATE_BIAS,
    RMS_NORM,
    SINKS,
    Architecture,
    Key,
)

_LAYER_NORM = {"attention.layer_norm_epsilon": Key("layer_norm_eps", float, required=True)}
_WINDOW = {"attention.sliding_window": Key("sliding_window")}


_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
# A layer's experts lie in one tensor, which the names of `runtime.checkpoint.folder` are for.
_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
# Of routers that choose as DeepSeek V3's does, with an MLP for all rows beside the experts.
_SHARED_EXPERTS = {
    **_EXPERTS,
    "exp_probs_b": CORRECTION,
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
# Of a module for multi-token prediction, a layer behind the last.
_NEXTN = {
    "nextn.eh_proj": "eh_proj",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.shared_head_norm": "shared_head.norm",
    "nextn.shared_head_head": "shared_head.head",
    "nextn.embed_tokens": "embed_tokens",
}
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_LLAMA = {**_ATTENTION, **_MLP, **_NORMS}
_GEMMA_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GEMMA = {**_ATTENTION, **_MLP, **_GEMMA_NORMS}
_LAYER_INPUTS = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}

_EXPERT_COUNTS = {
    "expert_count": Key("num_local_experts", required=True),
    "expert_used_count": Key("num_experts_per_tok", required=True),
}

_DEEPSEEK_EXPERTS = {
    "leading_dense_block_count": Key("first_k_dense_replace"),
    "expert_count": Key("n_routed_experts"),
    "expert_used_count": Key("num_experts_per_tok"),
    "expert_shared_count": Key("n_shared_experts"),
    "expert_feed_forward_length": Key("moe_intermediate_size"),
    "expert_group_count": Key("n_group"),
    "expert_group_used_count": Key("topk_group"),
    "expert_weights_scale": Key("routed_scaling_factor", float),
    "expert_weights_norm": Key("norm_topk_prob", bool),
    "nextn_predict_layers": Key(MODULES),
}
_DEEPSEEK_ABSENT = {
    "first_k_dense_replace": 0,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": False,
}
_SIGMOID = {"expert_gating_func": 2}  # by its number in `gguf.constants.ExpertGatingFuncType`

_MIXTRAL = Architecture(
    "MixtralForCausalLM",
    "mixtral",
    {**_ATTENTION, **_NORMS, **_EXPERTS},
    {**RMS_NORM, **_EXPERT_COUNTS},
    permuted=True,
)

_OLMO = {
    **_ATTENTION,
    **_QK_NORM,
    **_MLP,
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
# A stretched rope is that of layers without a window.
_OLMO3 = Architecture("Olmo3ForCausalLM", "olmo3", _OLMO, {**RMS_NORM, **_WINDOW}, attention_bias="attention_bias")

_GRANITE_KEYS = {
    **RMS_NORM,
    "attention.scale": Key("attention_multiplier", float),
    "embedding_scale": Key("embedding_multiplier", float),
    "residual_scale": Key("residual_multiplier", float),
    "logit_scale": Key("logits_scaling", float),
}
_ROTATES = {"rope.scaling.finetuned": True}  # of Granite, the switch that turns rotation off
_GRANITE_MOE_KEYS = {**_GRANITE_KEYS, **_EXPERT_COUNTS}
_GRANITE_MOE_SHARED = Architecture(
    "GraniteMoeSharedForCausalLM",
    "granitemoeshared",
    {**_ATTENTION, **_NORMS, **_SHARED_EXPERTS},
    keys={**_GRANITE_MOE_KEYS, "expert_shared_feed_forward_length": Key("shared_intermediate_size")},
    fixed=_ROTATES,
    permuted=True,
    attention_bias="attention_bias",
)

# Files of LFM2 have the width of the MLP as it is computed.
_LFM2 = Architecture(
    "Lfm2ForCausalLM",
    "lfm2",
    {
        **_ATTENTION,
        **_QK_NORM,
        **_MLP,
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
    **_ATTENTION,
    **_QK_NORM,
    **_NEXTN,
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_a": RATE,
    "ssm_dt": RATE_BIAS,
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
    **_EXPERTS,
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
_DELTA_EXPERT_KEYS = {
    **_EXPERT_COUNTS,
    "feed_forward_length": Key("intermediate_size"),  # of no layer
    "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
    "expert_shared_feed_forward_length": Key("shared_expert_intermediate_size", required=True),
}
_BETA_ALPHA = {"ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a"}
_QWEN3_5 = Architecture(
    "Qwen3_5ForCausalLM",
    "qwen3_5_text",
    {**_DELTA, **_MLP, **_BETA_ALPHA},
    keys=_DELTA_KEYS,
    settings={"partial_rotary_factor": 1.0},
    added_to_norms=1.0,
    attention_bias="attention_bias",
    more_keys=hybrid.QWEN_KEYS,
    more_settings=hybrid.qwen_settings,
    restored=hybrid.restored_tiled_delta,
)

ARCHITECTURES = {
    # Mistral's models are of this architecture, too; llama.cpp knows no window of theirs.
    "llama": Architecture(
        "LlamaForCausalLM",
        "llama",
        _LLAMA,
        fixed={"expert_count": 0, "expert_used_count": 0},
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
        variants={"expert_count": _MIXTRAL},
    ),
    "qwen2": Architecture("Qwen2ForCausalLM", "qwen2", _LLAMA, settings={"use_sliding_window": False}),
    "qwen3": Architecture(
        "Qwen3ForCausalLM",
        "qwen3",
        {**_LLAMA, **_QK_NORM},
        settings={"use_sliding_window": False},
        attention_bias="attention_bias",
    ),
    "qwen3moe": Architecture(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        {**_ATTENTION, **_QK_NORM, **_NORMS, **_EXPERTS},
        keys={**RMS_NORM, **_EXPERT_COUNTS, "expert_feed_forward_length": Key("moe_intermediate_size", required=True)},
        settings={"use_sliding_window": False, "norm_topk_prob": True, "decoder_sparse_step": 1},
        attention_bias="attention_bias",
    ),
    "gpt-oss": Architecture(
        "GptOssForCausalLM",
        "gpt_oss",
        {
            **_ATTENTION,
            **_EXPERTS,
            "attn_sinks": SINKS,
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_attention_layernorm",
        },
        keys={
            **RMS_NORM,
            **_EXPERT_COUNTS,
            **_WINDOW,
            "expert_feed_forward_length": Key("intermediate_size", required=True),
        },
        rope={"truncate": False},
    ),
    # Mistral Small 3 and Ministral 3, which differ by keys.
    "mistral3": Architecture(
        "Ministral3ForCausalLM",
        "ministral3",
        _LLAMA,
        permuted=True,
        rope={"mscale": 1.0},
        rope_keys={
            "rope.scaling.yarn_log_multiplier": Key("mscale_all_dim", float),
            "attention.temperature_scale": Key("llama_4_scaling_beta", float),
        },
    ),
    "hunyuan-dense": Architecture(
        "HunYuanDenseV1ForCausalLM",
        "hunyuan_v1_dense",
        {**_LLAMA, **_QK_NORM},
        attention_bias="attention_bias",
    ),
    "ernie4_5": Architecture("Ernie4_5ForCausalLM", "ernie4_5", _LLAMA, attention_bias="use_bias", mlp_bias="use_bias"),
    "seed_oss": Architecture(
        "SeedOssForCausalLM",
        "seed_oss",
        {**_ATTENTION, **_MLP, "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"},
        attention_bias="attention_bias",
    ),
    # GLM-4 of 2024: queries, keys and values are one matrix in files of the first conversion.
    "chatglm": Architecture(
        "GlmForCausalLM",
        "glm",
        {
            **_ATTENTION,
            **_NORMS,
            "attn_qkv": "self_attn.qkv_proj",
            "ffn_up": "mlp.gate_up_proj",
            "ffn_down": "mlp.down_proj",
        },
    ),
    # Which layers do not rotate, every fourth, stands in no key.
    "smollm3": Architecture(
        "SmolLM3ForCausalLM",
        "smollm3",
        _LLAMA,
        settings={"use_sliding_window": False, "no_rope_layer_interval": 4},
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "gemma": Architecture("GemmaForCausalLM", "gemma", _LLAMA, added_to_norms=1.0),
    "gemma2": Architecture(
        "Gemma2ForCausalLM",
        "gemma2",
        _GEMMA,
        keys={
            **RMS_NORM,
            **_WINDOW,
            "attn_logit_softcapping": Key("attn_logit_softcapping", float),
            "final_logit_softcapping": Key("final_logit_softcapping", float),
        },
        settings={"sliding_window": 4096, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        added_to_norms=1.0,
        narrow_layers=46,  # 27B
    ),
    # The theta of layers with a window stands in a key of late files only; it is 10,000.
    "gemma3": Architecture(
        "Gemma3ForCausalLM",
        "gemma3_text",
        {**_GEMMA, **_QK_NORM},
        keys={
            **RMS_NORM,
            **_WINDOW,
            "rope.freq_base_swa": Key("rope_local_base_freq", float),
            "final_logit_softcapping": Key("final_logit_softcapping", float),
        },
        settings={"sliding_window": None, "rope_local_base_freq": 10_000.0},
        added_to_norms=1.0,
        narrow_layers=62,  # 27B
    ),
    "gemma3n": Architecture(
        "Gemma3nForCausalLM",
        "gemma3n_text",
        {**_GEMMA, **_QK_NORM, **_LAYER_INPUTS, **gemma3n.TENSORS},
        keys={**RMS_NORM, **_WINDOW, **gemma3n.KEYS},
        fixed={"altup.active_idx": 0},
        more_keys=gemma3n.MORE_KEYS,
        more_settings=gemma3n.gemma3n_settings,
        restored=gemma3n.split_streams,
    ),
    "gemma4": Architecture(
        "Gemma4ForCausalLM",
        "gemma4_text",
        {
            **_GEMMA,
            **_QK_NORM,
            "layer_output_scale.weight": "layer_scalar",
            **_LAYER_INPUTS,
            "ffn_gate_inp": "mlp.gate",
            "ffn_gate_inp.scale": "mlp.gate.scale",
            "ffn_gate_up_exps.weight": "mlp.experts.gate_up_proj",
            "ffn_gate_exps": "mlp.experts.gate_proj",
            "ffn_up_exps": "mlp.experts.up_proj",
            "ffn_down_exps": "mlp.experts.down_proj",
            "ffn_down_exps.scale": "mlp.gate.per_expert_scale",
            "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
            "post_ffw_norm_1": "post_feedforward_layernorm_1",
            "post_ffw_norm_2": "post_feedforward_layernorm_2",
        },
        keys={
            **RMS_NORM,
            **_WINDOW,
            "attention.shared_kv_layers": Key("num_kv_shared_layers"),
            "embedding_length_per_layer_input": Key("hidden_size_per_layer_input"),
            "expert_count": Key("num_experts"),
            "expert_used_count": Key("top_k_experts"),
            "expert_feed_forward_length": Key("moe_intermediate_size"),
            "rope.freq_base_swa": Key("rope_local_base_freq", float),
            "final_logit_softcapping": Key("final_logit_softcapping", float),
        },
        settings={"hidden_size_per_layer_input": 0, "rope_local_base_freq": 10_000.0},
        more_keys=gemma4.KEYS,
        more_settings=gemma4.gemma4_settings,
    ),
    "phi3": Architecture(
        "Phi3ForCausalLM",
        "phi3",
        {
            **_NORMS,
            "attn_qkv": "self_attn.qkv_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_up": "mlp.gate_up_proj",
            "ffn_down": "mlp.down_proj",
        },
        keys={
            **RMS_NORM,
            **_WINDOW,
            "rope.scaling.original_context_length": Key("original_max_position_embeddings"),
        },
    ),
    "olmo2": Architecture(
        "Olmo2ForCausalLM",
        "olmo2",
        _OLMO,
        attention_bias="attention_bias",
        variants={"attention.sliding_window": _OLMO3},
    ),
    "granite": Architecture(
        "GraniteForCausalLM",
        "granite",
        _LLAMA,
        keys=_GRANITE_KEYS,
        fixed=_ROTATES,
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "granitemoe": Architecture(
        "GraniteMoeForCausalLM",
        "granitemoe",
        {**_ATTENTION, **_NORMS, **_EXPERTS},
        keys=_GRANITE_MOE_KEYS,
        fixed=_ROTATES,
        permuted=True,
        attention_bias="attention_bias",
        variants={"expert_shared_feed_forward_length": _GRANITE_MOE_SHARED},
    ),
    "olmoe": Architecture(
        "OlmoeForCausalLM",
        "olmoe",
        {**_ATTENTION, **_QK_NORM, **_NORMS, **_EXPERTS},
        keys={**RMS_NORM, **_EXPERT_COUNTS},
        settings={"norm_topk_prob": False},
        attention_bias="attention_bias",
    ),
    "glm4": Architecture(
        "Glm4ForCausalLM",
        "glm4",
        {
            **_ATTENTION,
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_self_attn_layernorm",
            "ffn_norm": "post_attention_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
            "ffn_up": "mlp.gate_up_proj",
            "ffn_down": "mlp.down_proj",
        },
        attention_bias="attention_bias",
    ),
    # V2 and its Lite form, V3 and R1, GLM-4.7-Flash: `gguf.deepseek` tells which.
    "deepseek2": Architecture(
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        {
            **_NORMS,
            **_MLP,
            **_SHARED_EXPERTS,
            **_NEXTN,
            "attn_q": "self_attn.q_proj",
            "attn_q_a": "self_attn.q_a_proj",
            "attn_q_a_norm": "self_attn.q_a_layernorm",
            "attn_q_b": "self_attn.q_b_proj",
            "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
            "attn_kv_a_norm": "self_attn.kv_a_layernorm",
            "attn_kv_b": "self_attn.kv_b_proj",  # of old files
            "attn_k_b": "self_attn.k_b_proj",
            "attn_v_b": "self_attn.v_b_proj",
            "attn_output": "self_attn.o_proj",
        },
        keys={
            **RMS_NORM,
            **_DEEPSEEK_EXPERTS,
            "attention.q_lora_rank": Key("q_lora_rank"),
            "attention.kv_lora_rank": Key("kv_lora_rank", required=True),
        },
        settings={**_DEEPSEEK_ABSENT, "q_lora_rank": None},
        more_keys=deepseek.KEYS,
        more_settings=deepseek.deepseek_settings,
        restored=deepseek.whole_tensors,
    ),
    "glm4moe": Architecture(
        "Glm4MoeForCausalLM",
        "glm4_moe",
        {
            **_ATTENTION,
            **_QK_NORM,
            **_MLP,
            **_SHARED_EXPERTS,
            **_NEXTN,
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_attention_layernorm",
        },
        keys={**RMS_NORM, **_DEEPSEEK_EXPERTS},
        fixed=_SIGMOID,
        settings=_DEEPSEEK_ABSENT,
        qk_norm="use_qk_norm",
        attention_bias="attention_bias",
    ),
    # The shared experts' width is that of so many experts; their tensors' shapes are held to it.
    "ernie4_5-moe": Architecture(
        "Ernie4_5_MoeForCausalLM",
        "ernie4_5_moe",
        {**_LLAMA, **_SHARED_EXPERTS},
        keys={
            **RMS_NORM,
            "expert_count": Key("moe_num_experts", required=True),
            "expert_used_count": Key("moe_k", required=True),
            "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
            "expert_shared_count": Key("moe_num_shared_experts"),
            "expert_shared_feed_forward_length": Key("shared_intermediate_size"),
            "interleave_moe_layer_step": Key("moe_layer_interval", required=True),
            "leading_dense_block_count": Key("moe_layer_start_index"),
        },
        settings={"moe_num_shared_experts": 0, "moe_layer_start_index": 0},
    ),
    "hunyuan-moe": Architecture(
        "HunYuanMoEV1ForCausalLM",
        "hunyuan_v1_moe",
        {**_ATTENTION, **_QK_NORM, **_NORMS, **_SHARED_EXPERTS},
        keys={
            **RMS_NORM,
            "expert_count": Key("num_experts", required=True),
            "expert_used_count": Key("moe_topk", required=True),
            "expert_shared_count": Key("num_shared_expert"),
            "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
            "expert_shared_feed_forward_length": Key("shared_intermediate_size"),
        },
        attention_bias="attention_bias",
    ),
    "minimax-m2": Architecture(
        "MiniMaxM2ForCausalLM",
        "minimax_m2",
        {**_ATTENTION, **_QK_NORM, **_NORMS, **_EXPERTS, "exp_probs_b": CORRECTION},
        keys={
            **RMS_NORM,
            **_EXPERT_COUNTS,
            "expert_feed_forward_length": Key("intermediate_size", required=True),
        },
        fixed=_SIGMOID,
    ),
    "lfm2": _LFM2,
    "lfm2moe": replace(
        _LFM2,
        name="Lfm2MoeForCausalLM",
        model_type="lfm2_moe",
        tensors={**_LFM2.tensors, **_EXPERTS, "exp_probs_b": CORRECTION},
        keys={
            **_LFM2.keys,
            **_EXPERT_COUNTS,
            "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
            "leading_dense_block_count": Key("num_dense_layers"),
        },
        fixed=_SIGMOID,
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
    "command-r": Architecture(
        "CohereForCausalLM",
        "cohere",
        {**_ATTENTION, **_QK_NORM, **_MLP, "attn_norm": "input_layernorm"},
        keys={**_LAYER_NORM, "logit_scale": Key("logit_scale", float)},
        qk_norm="use_qk_norm",
        attention_bias="attention_bias",
    ),
    "cohere2": Architecture(
        "Cohere2ForCausalLM",
        "cohere2",
        {**_ATTENTION, **_MLP, "attn_norm": "input_layernorm"},
        keys={**_LAYER_NORM, **_WINDOW, "logit_scale": Key("logit_scale", float)},
        settings={"sliding_window_pattern": 4},
        attention_bias="attention_bias",
    ),
}
