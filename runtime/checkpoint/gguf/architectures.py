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
    """What a key means.

    Attributes:
        setting: the name in config.json.
        kind: the type of its value.
        required: whether every file has it; an absent one leaves the setting out.
    """

    setting: str
    kind: type[Any] = int
    required: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture of llama.cpp.

    Attributes:
        name: the architecture in config.json.
        model_type: likewise.
        keys: those beside `COMMON_KEYS`.
        ignored: keys that change nothing that is computed here.
        settings: those that are the same for all files.
        tensors: names of a layer's tensors, without `.weight` or `.bias`: llama.cpp's to transformers'.
        permuted: whether the rows of each query and key head lie in the order of llama.cpp's first rotation: pairs are
            neighbours, and not half a head apart.
        added_to_norms: what was added to the weights of all norms.
        attention_bias: the setting that says whether there are tensors `attn_q.bias`; None where the family knows.
        mlp_bias: likewise, of `ffn_up.bias`.
    """

    name: str
    model_type: str
    keys: Mapping[str, Key] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    permuted: bool = False
    added_to_norms: float = 0.0
    attention_bias: str | None = None
    mlp_bias: str | None = None


COMMON_KEYS = {
    "block_count": Key("num_hidden_layers", required=True),
    "context_length": Key("max_position_embeddings", required=True),
    "embedding_length": Key("hidden_size", required=True),
    "feed_forward_length": Key("intermediate_size", required=True),
    "attention.head_count": Key("num_attention_heads", required=True),
    "attention.head_count_kv": Key("num_key_value_heads"),
    "attention.key_length": Key("head_dim"),
    "attention.layer_norm_rms_epsilon": Key("rms_norm_eps", float, required=True),
    "attention.causal": Key("is_causal", bool),
}

MODEL_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_LLAMA = {**_ATTENTION, **_MLP, **_NORMS}

ARCHITECTURES = {
    # Mistral's models are of this architecture, too; llama.cpp knows no window of theirs.
    "llama": Architecture(
        "LlamaForCausalLM",
        "llama",
        tensors=_LLAMA,
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "qwen2": Architecture("Qwen2ForCausalLM", "qwen2", settings={"use_sliding_window": False}, tensors=_LLAMA),
    "qwen3": Architecture(
        "Qwen3ForCausalLM",
        "qwen3",
        settings={"use_sliding_window": False},
        tensors={**_LLAMA, **_QK_NORM},
        attention_bias="attention_bias",
    ),
    # Which layers do not rotate, every fourth, stands in no key.
    "smollm3": Architecture(
        "SmolLM3ForCausalLM",
        "smollm3",
        settings={"use_sliding_window": False, "no_rope_layer_interval": 4},
        tensors=_LLAMA,
        permuted=True,
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
}
