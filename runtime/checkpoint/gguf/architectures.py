"""The architectures of llama.cpp that cede reads: which keys and tensor names they have, and what these mean.

A key is that of the file without the architecture's name before it (`attention.head_count`); a setting is that of
Hugging Face's config.json.  Sources: llama.cpp's conversion modules, which write the files, and its `load_arch_hparams`
and `load_arch_tensors` functions, which say what absent keys mean.

To add one, read these, and add an entry to `ARCHITECTURES`.  What an entry does not name is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Key:
    """Meaning of a key.

    Attributes:
        setting: the name in config.json.
        kind: the type of its value.
        required: whether every file has it; an absent one leaves the setting out.
    """

    setting: str
    kind: type[Any] = int
    required: bool = False


COMMON_KEYS = {
    "block_count": Key("num_hidden_layers", required=True),
    "context_length": Key("max_position_embeddings", required=True),
    "embedding_length": Key("hidden_size", required=True),
    "feed_forward_length": Key("intermediate_size", required=True),
    "attention.head_count": Key("num_attention_heads", required=True),
    "attention.head_count_kv": Key("num_key_value_heads"),
    "attention.key_length": Key("head_dim"),
    "attention.causal": Key("is_causal", bool),
}
_RMS_NORM = {"attention.layer_norm_rms_epsilon": Key("rms_norm_eps", float, required=True)}
_LAYER_NORM = {"attention.layer_norm_epsilon": Key("layer_norm_eps", float, required=True)}
_WINDOW = {"attention.sliding_window": Key("sliding_window")}


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture of llama.cpp.

    Attributes:
        name: the architecture in config.json.
        model_type: likewise.
        tensors: names of a layer's tensors, without `.weight` or `.bias`: llama.cpp's to transformers'; with it, where
            transformers' has another end.
        keys: those beside `COMMON_KEYS`.
        fixed: keys that are read only to see that their value is this one.
        settings: those that are the same for all files.
        permuted: whether the rows of each query and key head lie in the order of llama.cpp's first rotation: pairs are
            neighbours, and not half a head apart.
        added_to_norms: what was added to the weights of all norms.
        qk_norm: the setting that says whether there are tensors `attn_q_norm.weight`; None where the family knows.
        attention_bias: the setting likewise, of `attn_q.bias`.
        mlp_bias: likewise, of `ffn_up.bias`.
        rope: settings of a stretched rope that no key has.
        variants: by a key, the entry of files of this architecture that have it, and not as 0.
        narrow_layers: the number of layers of the model whose queries are scaled by hidden size over heads, and not by
            the size of a head, as those of the others; no key says so.  None where config.json has no such setting.
    """

    name: str
    model_type: str
    tensors: Mapping[str, str]
    keys: Mapping[str, Key] = field(default_factory=lambda: _RMS_NORM)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    permuted: bool = False
    added_to_norms: float = 0.0
    qk_norm: str | None = None
    attention_bias: str | None = None
    mlp_bias: str | None = None
    rope: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Architecture] = field(default_factory=dict)
    narrow_layers: int | None = None


MODEL_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
}

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
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_LLAMA = {**_ATTENTION, **_MLP, **_NORMS}
_GEMMA_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GEMMA = {**_ATTENTION, **_MLP, **_GEMMA_NORMS}

_EXPERT_COUNTS = {
    "expert_count": Key("num_local_experts", required=True),
    "expert_used_count": Key("num_experts_per_tok", required=True),
}

_MIXTRAL = Architecture(
    "MixtralForCausalLM",
    "mixtral",
    {**_ATTENTION, **_NORMS, **_EXPERTS},
    {**_RMS_NORM, **_EXPERT_COUNTS},
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
_OLMO3 = Architecture("Olmo3ForCausalLM", "olmo3", _OLMO, {**_RMS_NORM, **_WINDOW}, attention_bias="attention_bias")

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
        keys={**_RMS_NORM, **_EXPERT_COUNTS, "expert_feed_forward_length": Key("moe_intermediate_size", required=True)},
        settings={"use_sliding_window": False, "norm_topk_prob": True, "decoder_sparse_step": 1},
        attention_bias="attention_bias",
    ),
    "gpt-oss": Architecture(
        "GptOssForCausalLM",
        "gpt_oss",
        {
            **_ATTENTION,
            **_EXPERTS,
            "attn_sinks.weight": "self_attn.sinks",
            "attn_norm": "input_layernorm",
            "post_attention_norm": "post_attention_layernorm",
        },
        keys={
            **_RMS_NORM,
            **_EXPERT_COUNTS,
            **_WINDOW,
            "expert_feed_forward_length": Key("intermediate_size", required=True),
        },
        rope={"truncate": False},
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
            **_RMS_NORM,
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
            **_RMS_NORM,
            **_WINDOW,
            "rope.freq_base_swa": Key("rope_local_base_freq", float),
            "final_logit_softcapping": Key("final_logit_softcapping", float),
        },
        settings={"sliding_window": None, "rope_local_base_freq": 10_000.0},
        added_to_norms=1.0,
        narrow_layers=62,  # 27B
    ),
    # What differs by layer is read by `gguf.gemma4`.
    "gemma4": Architecture(
        "Gemma4ForCausalLM",
        "gemma4_text",
        {
            **_GEMMA,
            **_QK_NORM,
            "layer_output_scale.weight": "layer_scalar",
            "inp_gate": "per_layer_input_gate",
            "proj": "per_layer_projection",
            "post_norm": "post_per_layer_input_norm",
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
            **_RMS_NORM,
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
            **_RMS_NORM,
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
        keys={
            **_RMS_NORM,
            "attention.scale": Key("attention_multiplier", float),
            "embedding_scale": Key("embedding_multiplier", float),
            "residual_scale": Key("residual_multiplier", float),
            "logit_scale": Key("logits_scaling", float),
        },
        fixed={"rope.scaling.finetuned": True},  # of this architecture, the switch that turns rotation off
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
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
    # V2 and its Lite form, V3 and R1: `gguf.deepseek` tells which.
    "deepseek2": Architecture(
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        {
            **_NORMS,
            **_MLP,
            **_EXPERTS,
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
            "exp_probs_b": "mlp.gate.e_score_correction",
            "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
            "ffn_up_shexp": "mlp.shared_experts.up_proj",
            "ffn_down_shexp": "mlp.shared_experts.down_proj",
        },
        keys={
            **_RMS_NORM,
            "attention.q_lora_rank": Key("q_lora_rank"),
            "attention.kv_lora_rank": Key("kv_lora_rank", required=True),
            "leading_dense_block_count": Key("first_k_dense_replace"),
            "expert_count": Key("n_routed_experts"),
            "expert_used_count": Key("num_experts_per_tok"),
            "expert_shared_count": Key("n_shared_experts"),
            "expert_feed_forward_length": Key("moe_intermediate_size"),
            "expert_group_count": Key("n_group"),
            "expert_group_used_count": Key("topk_group"),
            "expert_weights_scale": Key("routed_scaling_factor", float),
            "expert_weights_norm": Key("norm_topk_prob", bool),
        },
        settings={
            "q_lora_rank": None,
            "first_k_dense_replace": 0,
            "n_group": 1,
            "topk_group": 1,
            "routed_scaling_factor": 1.0,
            "norm_topk_prob": False,
        },
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
