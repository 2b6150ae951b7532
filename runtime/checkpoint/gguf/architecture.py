"""The form of an entry in the table of llama.cpp's architectures, and what all entries have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor


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


MODULES = "num_nextn_predict_layers"  # for multi-token prediction, which `block_count` counts as layers

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
RMS_NORM = {"attention.layer_norm_rms_epsilon": Key("rms_norm_eps", float, required=True)}


def _no_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    return {}


def _as_they_are(tensors: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    return tensors


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
        added_to_norms: what was added to the weights of all norms, but those of what linear attention gives.
        qk_norm: the setting that says whether there are tensors `attn_q_norm.weight`; None where the family knows.
        attention_bias: the setting likewise, of `attn_q.bias`.
        mlp_bias: likewise, of `ffn_up.bias`.
        told: further such settings, by the names of tensors of a layer.
        rope: settings of a stretched rope that no key has.
        rope_keys: keys of settings that lie among the rope's; 0 is as absent.
        variants: by a key, the entry of files of this architecture that have it, and not as 0.
        more_keys: those that `more_settings` reads, in the place of `COMMON_KEYS` where they are there, too.
        more_settings: tells the settings that are not a key's value, from the file and those that are.
        restored: undoes what the conversion did to tensors, by their canonical names, besides what is said above.
        narrow_layers: the number of layers of the model whose queries are scaled by hidden size over heads, and not by
            the size of a head, as those of the others; no key says so.  None where config.json has no such setting.
    """

    name: str
    model_type: str
    tensors: Mapping[str, str]
    keys: Mapping[str, Key] = field(default_factory=lambda: RMS_NORM)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    permuted: bool = False
    added_to_norms: float = 0.0
    qk_norm: str | None = None
    attention_bias: str | None = None
    mlp_bias: str | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    rope: Mapping[str, Any] = field(default_factory=dict)
    rope_keys: Mapping[str, Key] = field(default_factory=dict)
    variants: Mapping[str, Architecture] = field(default_factory=dict)
    more_keys: frozenset[str] = frozenset()
    more_settings: Callable[[GgufFile, Settings], dict[str, Any]] = _no_settings
    restored: Callable[[dict[str, StoredTensor], Settings], dict[str, StoredTensor]] = _as_they_are
    narrow_layers: int | None = None


SINKS, CORRECTION = "self_attn.sinks", "mlp.gate.e_score_correction_bias"
# How parameters end, which are of no module of their own and have no `.weight` or `.bias`.
PARAMETERS = (".sinks", ".e_score_correction_bias", ".A_log", ".dt_bias", ".D")

MODEL_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "token_embd_norm": "model.norm",  # LFM2
    "output": "lm_head",
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    "altup_proj": "model.altup_projections",
    "altup_unembd_proj": "model.altup_unembed_projections",
}

# --- what several architectures have ----------------------------------------------------------------------------------

ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
# Over a latent: DeepSeek's, and Kimi Linear's.
LATENT_ATTENTION = {
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
}
LATENT_KEYS = {
    "attention.q_lora_rank": Key("q_lora_rank"),
    "attention.kv_lora_rank": Key("kv_lora_rank", required=True),
}
QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
# A layer's experts lie in one tensor, which the names of `runtime.checkpoint.folder` are for.
EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
# Of routers that choose as DeepSeek V3's does, with an MLP for all rows beside the experts.
SHARED_EXPERTS = {
    **EXPERTS,
    "exp_probs_b": CORRECTION,
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
# Of a module for multi-token prediction, a layer behind the last.
NEXTN = {
    "nextn.eh_proj": "eh_proj",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.shared_head_norm": "shared_head.norm",
    "nextn.shared_head_head": "shared_head.head",
    "nextn.embed_tokens": "embed_tokens",
}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
EXPERT_COUNTS = {
    "expert_count": Key("num_local_experts", required=True),
    "expert_used_count": Key("num_experts_per_tok", required=True),
}
DEEPSEEK_EXPERTS = {
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
DEEPSEEK_ABSENT = {
    "first_k_dense_replace": 0,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": False,
}
SIGMOID = {"expert_gating_func": 2}  # by its number in `gguf.constants.ExpertGatingFuncType`
GRANITE_KEYS = {
    **RMS_NORM,
    "attention.scale": Key("attention_multiplier", float),
    "embedding_scale": Key("embedding_multiplier", float),
    "residual_scale": Key("residual_multiplier", float),
    "logit_scale": Key("logits_scaling", float),
}
