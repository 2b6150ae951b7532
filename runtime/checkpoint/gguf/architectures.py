"""The architectures of llama.cpp that cede reads: which keys and tensor names they have, and what these mean.

A key is that of the file without the architecture's name before it (`attention.head_count`); a setting is that of
Hugging Face's config.json.  Sources: llama.cpp's conversion modules, which write the files, and its `load_arch_hparams`
and `load_arch_tensors` functions, which say what absent keys mean.

To add one, read these, and add an entry to `ARCHITECTURES`.  What an entry does not name is refused.
"""

from __future__ import annotations

from runtime.checkpoint.gguf import deepseek, gemma, laguna
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
    NEXTN,
    NORMS,
    QK_NORM,
    RMS_NORM,
    SHARED_EXPERTS,
    SIGMOID,
    SINKS,
    Architecture,
    Key,
)
from runtime.checkpoint.gguf.recurrent import RECURRENT

_LAYER_NORM = {"attention.layer_norm_epsilon": Key("layer_norm_eps", float, required=True)}
_WINDOW = {"attention.sliding_window": Key("sliding_window")}

_LLAMA = {**ATTENTION, **MLP, **NORMS}
_GEMMA_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GEMMA = {**ATTENTION, **MLP, **_GEMMA_NORMS}
_LAYER_INPUTS = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}

_MIXTRAL = Architecture(
    "MixtralForCausalLM",
    "mixtral",
    {**ATTENTION, **NORMS, **EXPERTS},
    {**RMS_NORM, **EXPERT_COUNTS},
    permuted=True,
)

_OLMO = {
    **ATTENTION,
    **QK_NORM,
    **MLP,
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
# A stretched rope is that of layers without a window.
_OLMO3 = Architecture("Olmo3ForCausalLM", "olmo3", _OLMO, {**RMS_NORM, **_WINDOW}, attention_bias="attention_bias")

_ROTATES = {"rope.scaling.finetuned": True}  # of Granite, the switch that turns rotation off
_GRANITE_MOE_KEYS = {**GRANITE_KEYS, **EXPERT_COUNTS}
_GRANITE_MOE_SHARED = Architecture(
    "GraniteMoeSharedForCausalLM",
    "granitemoeshared",
    {**ATTENTION, **NORMS, **SHARED_EXPERTS},
    keys={**_GRANITE_MOE_KEYS, "expert_shared_feed_forward_length": Key("shared_intermediate_size")},
    fixed=_ROTATES,
    permuted=True,
    attention_bias="attention_bias",
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
        {**_LLAMA, **QK_NORM},
        settings={"use_sliding_window": False},
        attention_bias="attention_bias",
    ),
    "qwen3moe": Architecture(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        {**ATTENTION, **QK_NORM, **NORMS, **EXPERTS},
        keys={**RMS_NORM, **EXPERT_COUNTS, "expert_feed_forward_length": Key("moe_intermediate_size", required=True)},
        settings={"use_sliding_window": False, "norm_topk_prob": True, "decoder_sparse_step": 1},
        attention_bias="attention_bias",
    ),
    "gpt-oss": Architecture(
        "GptOssForCausalLM",
        "gpt_oss",
        {
            **ATTENTION,
            **EXPERTS,
            "attn_sinks": SINKS,
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_attention_layernorm",
        },
        keys={
            **RMS_NORM,
            **EXPERT_COUNTS,
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
        {**_LLAMA, **QK_NORM},
        attention_bias="attention_bias",
    ),
    "ernie4_5": Architecture("Ernie4_5ForCausalLM", "ernie4_5", _LLAMA, attention_bias="use_bias", mlp_bias="use_bias"),
    "seed_oss": Architecture(
        "SeedOssForCausalLM",
        "seed_oss",
        {**ATTENTION, **MLP, "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"},
        attention_bias="attention_bias",
    ),
    # GLM-4 of 2024: queries, keys and values are one matrix in files of the first conversion.
    "chatglm": Architecture(
        "GlmForCausalLM",
        "glm",
        {
            **ATTENTION,
            **NORMS,
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
        {**_GEMMA, **QK_NORM},
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
        {**_GEMMA, **QK_NORM, **_LAYER_INPUTS, **gemma.THREE_N_TENSORS},
        keys={**RMS_NORM, **_WINDOW, **gemma.THREE_N_KEYS},
        fixed={"altup.active_idx": 0},
        more_keys=gemma.THREE_N_MORE_KEYS,
        more_settings=gemma.gemma3n_settings,
        restored=gemma.split_streams,
    ),
    "gemma4": Architecture(
        "Gemma4ForCausalLM",
        "gemma4_text",
        {
            **_GEMMA,
            **QK_NORM,
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
        more_keys=gemma.KEYS,
        more_settings=gemma.gemma4_settings,
    ),
    "phi3": Architecture(
        "Phi3ForCausalLM",
        "phi3",
        {
            **NORMS,
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
    # Of Granite 4, too, where all layers attend: files of those have keys of experts.
    "granite": Architecture(
        "GraniteForCausalLM",
        "granite",
        _LLAMA,
        keys={**GRANITE_KEYS, "expert_shared_feed_forward_length": Key("shared_intermediate_size")},
        fixed={**_ROTATES, "expert_count": 0, "expert_used_count": 0},
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "granitemoe": Architecture(
        "GraniteMoeForCausalLM",
        "granitemoe",
        {**ATTENTION, **NORMS, **EXPERTS},
        keys=_GRANITE_MOE_KEYS,
        fixed=_ROTATES,
        permuted=True,
        attention_bias="attention_bias",
        variants={"expert_shared_feed_forward_length": _GRANITE_MOE_SHARED},
    ),
    "olmoe": Architecture(
        "OlmoeForCausalLM",
        "olmoe",
        {**ATTENTION, **QK_NORM, **NORMS, **EXPERTS},
        keys={**RMS_NORM, **EXPERT_COUNTS},
        settings={"norm_topk_prob": False},
        attention_bias="attention_bias",
    ),
    "glm4": Architecture(
        "Glm4ForCausalLM",
        "glm4",
        {
            **ATTENTION,
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
            **NORMS,
            **MLP,
            **SHARED_EXPERTS,
            **NEXTN,
            **LATENT_ATTENTION,
        },
        keys={**RMS_NORM, **DEEPSEEK_EXPERTS, **LATENT_KEYS},
        settings={**DEEPSEEK_ABSENT, "q_lora_rank": None},
        more_keys=deepseek.KEYS,
        more_settings=deepseek.deepseek_settings,
        restored=deepseek.whole_tensors,
    ),
    "glm4moe": Architecture(
        "Glm4MoeForCausalLM",
        "glm4_moe",
        {
            **ATTENTION,
            **QK_NORM,
            **MLP,
            **SHARED_EXPERTS,
            **NEXTN,
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_attention_layernorm",
        },
        keys={**RMS_NORM, **DEEPSEEK_EXPERTS},
        fixed=SIGMOID,
        settings=DEEPSEEK_ABSENT,
        qk_norm="use_qk_norm",
        attention_bias="attention_bias",
    ),
    # The shared experts' width is that of so many experts; their tensors' shapes are held to it.
    "ernie4_5-moe": Architecture(
        "Ernie4_5_MoeForCausalLM",
        "ernie4_5_moe",
        {**_LLAMA, **SHARED_EXPERTS},
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
        {**ATTENTION, **QK_NORM, **NORMS, **SHARED_EXPERTS},
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
        {**ATTENTION, **QK_NORM, **NORMS, **EXPERTS, "exp_probs_b": CORRECTION},
        keys={
            **RMS_NORM,
            **EXPERT_COUNTS,
            "expert_feed_forward_length": Key("intermediate_size", required=True),
        },
        fixed=SIGMOID,
    ),
    "laguna": Architecture(
        "LagunaForCausalLM",
        "laguna",
        {**ATTENTION, **QK_NORM, **NORMS, **MLP, **SHARED_EXPERTS, "attn_gate": "self_attn.gate_proj"},
        keys={
            **RMS_NORM,
            **_WINDOW,
            "expert_count": Key("num_experts", required=True),
            "expert_used_count": Key("num_experts_per_tok", required=True),
            "expert_feed_forward_length": Key("moe_intermediate_size", required=True),
            "expert_shared_feed_forward_length": Key("shared_expert_intermediate_size", required=True),
            "expert_weights_scale": Key("moe_routed_scaling_factor", float, required=True),
        },
        fixed={**SIGMOID, "expert_weights_norm": True, "expert_shared_count": 1},
        more_keys=laguna.KEYS,
        more_settings=laguna.laguna_settings,
    ),
    "command-r": Architecture(
        "CohereForCausalLM",
        "cohere",
        {**ATTENTION, **QK_NORM, **MLP, "attn_norm": "input_layernorm"},
        keys={**_LAYER_NORM, "logit_scale": Key("logit_scale", float)},
        qk_norm="use_qk_norm",
        attention_bias="attention_bias",
    ),
    "cohere2": Architecture(
        "Cohere2ForCausalLM",
        "cohere2",
        {**ATTENTION, **MLP, "attn_norm": "input_layernorm"},
        keys={**_LAYER_NORM, **_WINDOW, "logit_scale": Key("logit_scale", float)},
        settings={"sliding_window_pattern": 4},
        attention_bias="attention_bias",
    ),
    **RECURRENT,
}
