"""Small random checkpoints as GGUF files, written as llama.cpp's conversion does.

`write_gguf(folder, path)` takes a folder that `tests.models.checkpoints` filled.  Names of tensors come from the `gguf`
library's own table; what else the conversion changes (`conversion/*.py` of llama.cpp) is done here: rows of queries and
keys in another order, ones added to norms.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import gguf
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, RopeScalingType, TokenType
from torch import Tensor
from transformers import AutoConfig, SmolLM3Config, SmolLM3ForCausalLM

from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.folder.shards import read_shards
from runtime.checkpoint.stored import StoredTensor
from tests.models.checkpoints import FAMILIES, LATENT_YARN_ROPE
from tests.models.families.writing import write_checkpoint
from tests.models.gguf import recurrent

# Families whose small models the format can hold as they are, and others with what is changed of them: no key has it,
# for all published models are alike in it.  Windows of Mistral and Qwen 2, and SmolLM3 with layers that rotate by a
# list, have no keys at all.
_UNCHANGED = (
    *("llama", "llama-mha", "llama3-rope", "linear-rope", "yarn-rope", "llama-bias", "llama-sharded", "smollm"),
    *("mistral-full", "qwen2", "qwen3", "qwen3-tied", "mixtral", "gpt-oss", "gemma", "phi3", "phi3-long"),
    *("ministral3", "hunyuan", "ernie", "glm"),
    *("phi3-partial", "granite", "olmo2", "olmo3", "olmo3-yarn", "glm4", "deepseek2-lite"),
    *(
        "glm4-moe",
        "glm4-moe-qk-norm",
        "glm4-moe-lite",
        "minimax-m2",
        "granite-moe",
        "granite-moe-shared",
        "olmoe",
        "ernie-moe",
        "hunyuan-moe",
        "lfm2",
        "qwen3.5",
        "qwen3.5-moe",
        "granite-hybrid",
    ),
    *("gemma3n", "gemma3n-widths", "gemma4", "gemma4-shared-values", "gemma4-experts", "gemma4-layer-inputs"),
)
_CHANGED: dict[str, dict[str, Any]] = {
    **{name: {"query_pre_attn_scalar": 32} for name in ("gemma2", "gemma3", "gemma3-rope")},
    **{name: {"tie_word_embeddings": True} for name in ("cohere", "cohere-qk-norm", "cohere2")},
    # Without biases, and with one magnitude of YaRN.
    "deepseek2": {"rope_parameters": LATENT_YARN_ROPE | {"mscale": 0.6}},
    "deepseek3": {"attention_bias": False},
    "gpt-oss-plain-rope": {"swiglu_limit": 7.0},
    "qwen3-moe": {"mlp_only_layers": []},
    "lfm2-moe": {"routed_scaling_factor": 1.0},
    "qwen3-next": {"mlp_only_layers": []},
    "seed-oss": {"attention_out_bias": False},
    # Factors are multiplied into matrices, of which `test_hybrid` has a test.
    "falcon-h1": {**recurrent.NO_FACTORS, "mamba_norm_before_gate": False},
    "granite-hybrid-moe": {"mamba_proj_bias": False},
    "laguna-elements": {"mlp_layer_types": ["dense", "dense", "sparse"]},
    "kimi-linear": {"linear_num_heads": 4, "q_lora_rank": 32},
    "nemotron-h": {"use_bias": False},
    "nemotron-h-latent": {"intermediate_size": 32},  # that of the experts
}

GGUF_FAMILIES: dict[str, Callable[..., None]] = {
    **{name: FAMILIES[name] for name in _UNCHANGED},
    **{name: partial(FAMILIES[name], **changed) for name, changed in _CHANGED.items()},
    "smollm3-every-fourth": partial(
        write_checkpoint, model_class=SmolLM3ForCausalLM, config_class=SmolLM3Config, seed=8, num_hidden_layers=5
    ),
}


@dataclass(frozen=True)
class _Conversion:
    """Conversion of one architecture."""

    arch: MODEL_ARCH
    permuted: bool = False
    added_to_norms: float = 0.0
    joined: bool = False  # queries, keys and values
    name: str | None = None  # where the library does not know the architecture


_CONVERSIONS = {
    "LlamaForCausalLM": _Conversion(MODEL_ARCH.LLAMA, permuted=True),
    "MistralForCausalLM": _Conversion(MODEL_ARCH.LLAMA, permuted=True),
    "Qwen2ForCausalLM": _Conversion(MODEL_ARCH.QWEN2),
    "Qwen3ForCausalLM": _Conversion(MODEL_ARCH.QWEN3),
    "SmolLM3ForCausalLM": _Conversion(MODEL_ARCH.SMOLLM3, permuted=True),
    "DeepseekV2ForCausalLM": _Conversion(MODEL_ARCH.DEEPSEEK2),
    "DeepseekV3ForCausalLM": _Conversion(MODEL_ARCH.DEEPSEEK2),
    "MixtralForCausalLM": _Conversion(MODEL_ARCH.LLAMA, permuted=True),
    "Qwen3MoeForCausalLM": _Conversion(MODEL_ARCH.QWEN3MOE),
    "GptOssForCausalLM": _Conversion(MODEL_ARCH.GPT_OSS),
    "GemmaForCausalLM": _Conversion(MODEL_ARCH.GEMMA, added_to_norms=1.0),
    "Gemma2ForCausalLM": _Conversion(MODEL_ARCH.GEMMA2, added_to_norms=1.0),
    "Phi3ForCausalLM": _Conversion(MODEL_ARCH.PHI3),
    "GraniteForCausalLM": _Conversion(MODEL_ARCH.GRANITE, permuted=True),
    "Olmo2ForCausalLM": _Conversion(MODEL_ARCH.OLMO2),
    "Olmo3ForCausalLM": _Conversion(MODEL_ARCH.OLMO2),
    "Glm4ForCausalLM": _Conversion(MODEL_ARCH.GLM4),
    "CohereForCausalLM": _Conversion(MODEL_ARCH.COMMAND_R),
    "Cohere2ForCausalLM": _Conversion(MODEL_ARCH.COHERE2),
    "Ministral3ForCausalLM": _Conversion(MODEL_ARCH.MISTRAL3, permuted=True),
    "HunYuanDenseV1ForCausalLM": _Conversion(MODEL_ARCH.HUNYUAN_DENSE),
    "Ernie4_5ForCausalLM": _Conversion(MODEL_ARCH.ERNIE4_5),
    "SeedOssForCausalLM": _Conversion(MODEL_ARCH.SEED_OSS),
    "GlmForCausalLM": _Conversion(MODEL_ARCH.CHATGLM, joined=True),
    "Gemma3nForCausalLM": _Conversion(MODEL_ARCH.GEMMA3N),
    "Gemma4ForCausalLM": _Conversion(MODEL_ARCH.GEMMA4),
    "Gemma3ForCausalLM": _Conversion(MODEL_ARCH.GEMMA3, added_to_norms=1.0),
    "Glm4MoeForCausalLM": _Conversion(MODEL_ARCH.GLM4_MOE),
    "GraniteMoeForCausalLM": _Conversion(MODEL_ARCH.GRANITE_MOE, permuted=True),
    "GraniteMoeSharedForCausalLM": _Conversion(MODEL_ARCH.GRANITE_MOE, permuted=True),
    "OlmoeForCausalLM": _Conversion(MODEL_ARCH.OLMOE),
    "Ernie4_5_MoeForCausalLM": _Conversion(MODEL_ARCH.ERNIE4_5_MOE),
    "HunYuanMoEV1ForCausalLM": _Conversion(MODEL_ARCH.HUNYUAN_MOE),
    "MiniMaxM2ForCausalLM": _Conversion(MODEL_ARCH.MINIMAXM2),
    "Glm4MoeLiteForCausalLM": _Conversion(MODEL_ARCH.DEEPSEEK2),
    "Qwen3NextForCausalLM": _Conversion(MODEL_ARCH.QWEN3NEXT, added_to_norms=1.0),
    "Qwen3_5ForCausalLM": _Conversion(MODEL_ARCH.QWEN35, added_to_norms=1.0),
    "Qwen3_5MoeForCausalLM": _Conversion(MODEL_ARCH.QWEN35MOE, added_to_norms=1.0),
    "Lfm2ForCausalLM": _Conversion(MODEL_ARCH.LFM2),
    "Lfm2MoeForCausalLM": _Conversion(MODEL_ARCH.LFM2MOE),
    "FalconH1ForCausalLM": _Conversion(MODEL_ARCH.FALCON_H1),
    "GraniteMoeHybridForCausalLM": _Conversion(MODEL_ARCH.GRANITE_HYBRID, permuted=True),
    "LagunaForCausalLM": _Conversion(MODEL_ARCH.QWEN3MOE, name="laguna"),
    "KimiLinearForCausalLM": _Conversion(MODEL_ARCH.KIMI_LINEAR),
    "NemotronHForCausalLM": _Conversion(MODEL_ARCH.NEMOTRON_H, permuted=True),
}


def write_gguf(
    folder: Path, path: Path, *, matrices: GGMLQuantizationType = GGMLQuantizationType.F32, vocabulary: bool = True
) -> Path:
    """Write the checkpoint in `folder` as the file `path`; returns `path`.

    Args:
        folder: in Hugging Face layout.
        path: of the file.
        matrices: the type of all matrices; vectors stay in float32.
        vocabulary: whether to write tokens and their types, which is enough to tell end tokens, and no more.
    """
    config = AutoConfig.from_pretrained(folder)
    config.allow_global_per_layer_attribute_access = True  # of Gemma 4, whose layers have heads of two sizes
    conversion = _CONVERSIONS[config.architectures[0]]
    if conversion.arch is MODEL_ARCH.NEMOTRON_H and "moe" in config.layer_types:
        conversion = replace(conversion, arch=MODEL_ARCH.NEMOTRON_H_MOE)
    writer = GGUFWriter(path, conversion.name or gguf.MODEL_ARCH_NAMES[conversion.arch])
    writer.add_type("model")
    shards = _shards(folder, config.num_hidden_layers)
    if modules := sum(name.endswith(".eh_proj.weight") for name in shards):
        writer.add_nextn_predict_layers(modules)
        config.num_hidden_layers += modules  # as the format counts them
    _add_sizes(writer, config)
    _add_windows(writer, config)
    _add_rope(writer, config)
    if vocabulary:
        _add_vocabulary(writer, folder, config)
    for name, tensor in _converted(shards, config, conversion):
        plain = tensor.dim() == 1 or name.endswith(recurrent.PLAIN)
        kind = GGMLQuantizationType.F32 if plain else matrices
        writer.add_tensor(name, gguf.quantize(tensor.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# --- metadata -------------------------------------------------------------------------------------------------------


_NUMBERS: dict[str, Callable[[GGUFWriter, float], None]] = {
    "rms_norm_eps": GGUFWriter.add_layer_norm_rms_eps,
    "norm_eps": GGUFWriter.add_layer_norm_rms_eps,
    "layer_norm_eps": GGUFWriter.add_layer_norm_eps,
    "layer_norm_epsilon": GGUFWriter.add_layer_norm_eps,
    "attention_multiplier": GGUFWriter.add_attention_scale,
    "embedding_multiplier": GGUFWriter.add_embedding_scale,
    "residual_multiplier": GGUFWriter.add_residual_scale,
    "logits_scaling": GGUFWriter.add_logit_scale,
    "logit_scale": GGUFWriter.add_logit_scale,
    "attn_logit_softcapping": GGUFWriter.add_attn_logit_softcapping,
    "final_logit_softcapping": GGUFWriter.add_final_logit_softcapping,
}


def _add_sizes(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "gemma4_text":
        _add_gemma4(writer, config)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    for setting, add in _NUMBERS.items():
        if getattr(config, setting, None) is not None and not recurrent.is_factor(config, setting):
            add(writer, getattr(config, setting))
    _add_experts(writer, config)
    recurrent.add_keys(writer, config)
    if config.model_type == "gemma3n_text":
        _add_gemma3n(writer, config)
    if config.model_type == "laguna":
        _add_laguna(writer, config)
    if hasattr(config, "kv_lora_rank"):
        _add_latent(writer, config)
    elif getattr(config, "head_dim", None) is not None:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def _add_experts(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if config.model_type == "nemotron_h":
        return
    if hasattr(config, "n_routed_experts"):
        _add_deepseek_experts(writer, config)
    elif experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if getattr(config, "shared_intermediate_size", 0):
            writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
        if getattr(config, "shared_expert_intermediate_size", 0):
            writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
        if config.model_type not in ("mixtral", "granitemoe", "granitemoeshared", "granitemoehybrid", "olmoe"):
            writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
        if config.model_type == "ernie4_5_moe":
            writer.add_interleave_moe_layer_step(config.moe_layer_interval)
            writer.add_leading_dense_block_count(config.moe_layer_start_index)
            writer.add_expert_shared_count(config.moe_num_shared_experts)
            writer.add_expert_shared_feed_forward_length(config.intermediate_size // config.num_key_value_heads)
        if config.model_type == "hunyuan_v1_moe":
            writer.add_expert_shared_count(1)
            writer.add_expert_shared_feed_forward_length(config.intermediate_size)
        if config.model_type == "minimax_m2":
            writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _add_gemma3n(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    shares = config.activation_sparsity_pattern
    writer.add_activation_sparsity_scale([NormalDist().inv_cdf(one) if one else -math.inf for one in shares])


def _add_gemma4(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write what `Gemma4Model` of llama.cpp's conversion does."""
    layers = [config.per_layer_config[layer] for layer in range(config.num_hidden_layers)]
    full = layers[config.layer_types.index("full_attention")]
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_key_length(full.head_dim)
    writer.add_value_length(full.head_dim)
    writer.add_key_length_swa(config.head_dim)
    writer.add_value_length_swa(config.head_dim)
    writer.add_rope_dimension_count_swa(config.head_dim)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    own = config.num_hidden_layers - config.num_kv_shared_layers
    widths = [config.intermediate_size * (1 if layer < own else 2) for layer in range(config.num_hidden_layers)]
    writer.add_feed_forward_length(widths if config.use_double_wide_mlp else config.intermediate_size)
    writer.add_head_count_kv([layer.num_key_value_heads for layer in layers])


def _add_laguna(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    heads = config.num_attention_heads_per_layer or [config.num_attention_heads] * config.num_hidden_layers
    local = config.rope_parameters.get("sliding_attention", {}).get("partial_rotary_factor", 1.0)
    writer.add_head_count(heads)
    writer.add_expert_weights_norm(True)
    writer.add_expert_weights_scale(config.moe_routed_scaling_factor)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(config.mlp_layer_types.index("sparse"))
    writer.add_rope_dimension_count_swa(int(config.head_dim * local))


def _add_latent(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write what `DeepseekV2Model` of llama.cpp's conversion does; `_add_sizes` has written the number of heads."""
    if config.q_lora_rank is not None:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    if "mscale_all_dim" in _rope(config):
        writer.add_rope_scaling_yarn_log_mul(0.1 * _rope(config)["mscale_all_dim"])


def _add_deepseek_experts(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_leading_dense_block_count(getattr(config, "first_k_dense_replace", 1))
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    if config.norm_topk_prob:
        writer.add_expert_weights_norm(True)
    if config.n_group is not None:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    if config.model_type in ("deepseek_v3", "glm4_moe"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _add_windows(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write which layers have a window as new files do, for the small models have it where their families do not."""
    if config.model_type == "phi3":
        writer.add_sliding_window(config.sliding_window or 0)
    elif "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        writer.add_sliding_window(config.sliding_window)
        if config.model_type != "gpt_oss":
            writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def _add_rope(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    rope = _rope(config)
    if "sliding_attention" in (ropes := getattr(config, "rope_parameters", None) or {}):
        writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    latent_dim = getattr(config, "qk_rope_head_dim", None)
    head_dim = latent_dim or getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    part = rope.get("partial_rotary_factor") or 1
    if rope["rope_type"] == "proportional":  # of heads of another size, of which all turns by the factors of a tensor
        head_dim, part = config.per_layer_config["full_attention"].head_dim, 1
    writer.add_rope_freq_base(rope["rope_theta"] * rope.get("alpha", 1.0) ** (head_dim / (head_dim - 2)))
    writer.add_rope_dimension_count(int(head_dim * part))
    if rope["rope_type"] == "longrope":
        stretch = config.max_position_embeddings / config.original_max_position_embeddings
        temperature = math.sqrt(1 + math.log(stretch) / math.log(config.original_max_position_embeddings))
        writer.add_rope_scaling_attn_factors(temperature)
    if config.model_type == "phi3":
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "llama_4_scaling_beta" in rope:
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])


def _rope(config: Any) -> dict[str, Any]:  # noqa: ANN401
    """The parameters of the layers without a window; of a model that does not rotate, any."""
    ropes = getattr(config, "rope_parameters", None) or {"rope_type": "default", "rope_theta": 10_000.0}
    found: dict[str, Any] = ropes.get("full_attention", ropes)
    return found


def _add_vocabulary(writer: GGUFWriter, folder: Path, config: Any) -> None:  # noqa: ANN401
    description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {**description["model"]["vocab"], **{token["content"]: token["id"] for token in description["added_tokens"]}}
    special = {token["id"] for token in description["added_tokens"] if token["special"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(ids, key=lambda token: ids[token]))
    writer.add_token_types([TokenType.CONTROL if i in special else TokenType.NORMAL for i in range(len(ids))])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)


# --- tensors --------------------------------------------------------------------------------------------------------


# What the conversion calls parts of Qwen's module for multi-token prediction, below a layer.
_QWEN_MODULE = {
    "mtp.fc.": "eh_proj.",
    "mtp.pre_fc_norm_embedding.": "enorm.",
    "mtp.pre_fc_norm_hidden.": "hnorm.",
    "mtp.norm.": "shared_head.norm.",
    "mtp.layers.0.": "",
}


def _shards(folder: Path, layers: int) -> dict[str, StoredTensor]:
    """Read the headers of all weights; a module's tensors are those of a layer behind the last."""
    found: dict[str, StoredTensor] = {}
    for name, stored in read_shards(folder).items():
        for part, own in _QWEN_MODULE.items():
            if name.startswith(part):
                name = f"model.layers.{layers}.{own}{name.removeprefix(part)}"
        found[name] = stored
    return found


def _converted(
    shards: Mapping[str, StoredTensor],
    config: Any,  # noqa: ANN401
    conversion: _Conversion,
) -> Iterator[tuple[str, Tensor]]:
    # Names of modules, and of Laguna's gate, are the same in all architectures.
    names, *others = (
        gguf.get_tensor_name_map(arch, config.num_hidden_layers)
        for arch in (conversion.arch, MODEL_ARCH.GLM4_MOE, MODEL_ARCH.AFMOE)
    )
    is_gemma = conversion.arch in (MODEL_ARCH.GEMMA3N, MODEL_ARCH.GEMMA4)  # whose own files have other names
    stored = shards if is_gemma else canonical_experts(shards, config.architectures[0])
    tensors = {name: tensor.expand().float() for name, tensor in stored.items()}
    tensors = {
        name.replace("correction_bias", "correction.bias"): one.squeeze() if one.dim() > 1 else one
        for name, one in tensors.items()
    }
    if (rewrite := _REWRITES.get(conversion.arch)) is not None:
        tensors = rewrite(tensors, config)
    if conversion.joined:
        tensors = _joined(tensors)
    for name, tensor in _with_stacks(tensors).items():
        if conversion.permuted and ".q_proj." in name:
            tensor = _permuted(tensor, config.num_attention_heads)
        if conversion.permuted and ".k_proj." in name:
            tensor = _permuted(tensor, config.num_key_value_heads)
        if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            tensor = tensor + conversion.added_to_norms
        suffixes = (".weight", ".bias")
        name, end = _gemma_name(name) if is_gemma else (name, "")
        found = (each.get_name(name, try_suffixes=suffixes) for each in (names, *others))
        renamed = next(filter(None, found), None)
        assert renamed is not None, name
        yield f"{renamed}.weight" if name.endswith("sinks") else renamed + end, tensor
    yield from _factors(config)


def _factors(config: Any) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401
    """Yield the tensors that say how fast pairs turn."""
    for kind in ("long", "short"):
        if (factors := _rope(config).get(f"{kind}_factor")) is not None:
            yield f"rope_factors_{kind}.weight", torch.tensor(factors)
    if _rope(config)["rope_type"] == "proportional":
        dim = config.per_layer_config["full_attention"].head_dim
        pairs = int(dim * _rope(config)["partial_rotary_factor"] / 2)
        yield "rope_freqs.weight", torch.tensor([1.0] * pairs + [1e30] * (dim // 2 - pairs))
    if _rope(config)["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_factors(_rope(config), config.head_dim)


def _gemma_name(name: str) -> tuple[str, str]:
    """Return what Gemma 3n or 4 calls a tensor without an end that llama.cpp calls otherwise, and that."""
    ends = {"router.scale": ("router.proj", ".scale"), "router.per_expert_scale": ("experts.down_proj", ".scale")}
    for end, (module, own) in ends.items():
        if name.endswith(end):
            return name.removesuffix(end) + module, own
    return name, "" if name.endswith(".weight") else ".weight"


def _stacked_streams(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Stack the projections of Gemma 3n's streams."""
    others = range(config.altup_num_inputs - 1)
    found = {name: tensor for name, tensor in tensors.items() if not re.search(r"projections\.\d", name)}
    for stack in ("model.altup_projections", "model.altup_unembed_projections"):
        found[f"{stack}.weight"] = torch.stack([tensors[f"{stack}.{other}.weight"] for other in others])
    return found


def _joined(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put queries, keys and values into one matrix."""
    joined: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        module, kind, part = name.rpartition("_proj.")
        if module.endswith(".self_attn.q"):
            parts = [tensors[f"{module[:-1]}{each}{kind}{part}"] for each in "qkv"]
            joined[f"{module[:-1]}qkv{kind}{part}"] = torch.cat(parts)
        elif not module.endswith((".self_attn.k", ".self_attn.v")):
            joined[name] = tensor
    return joined


_REWRITES: dict[MODEL_ARCH, Callable[[dict[str, Tensor], Any], dict[str, Tensor]]] = {
    MODEL_ARCH.GEMMA3N: _stacked_streams,
    MODEL_ARCH.GRANITE_MOE: recurrent.split_shared,
    MODEL_ARCH.DEEPSEEK2: recurrent.cut_latent,
    **recurrent.REWRITES,
}


def _with_stacks(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put the experts' tensors of each layer into one, `[experts, …]`."""
    whole: dict[str, Tensor] = {}
    stacks: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        if found := re.fullmatch(r"(.*\.experts\.)\d+\.(.*)", name):
            stacks.setdefault(found[1] + found[2], []).append(tensor)
        else:
            whole[name] = tensor
    return whole | {name: torch.stack(parts) for name, parts in stacks.items()}


def _permuted(tensor: Tensor, heads: int) -> Tensor:
    """Bring each number of a head's first half beside that of its second, as `LlamaModel.permute` does."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()


def llama3_factors(rope: dict[str, Any], head_dim: int) -> Tensor:
    """Return what the wavelengths are multiplied with, as `generate_extra_tensors` computes it."""
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    factors = []
    for frequency in frequencies.tolist():
        periods = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)  # in the length of training
        smooth = min(max((periods - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return torch.tensor(factors)
