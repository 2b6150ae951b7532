"""Small random checkpoints as GGUF files, written as llama.cpp's conversion does.

`write_gguf(folder, path)` takes a folder that `tests.models.checkpoints` filled.  Names of tensors come from the `gguf`
library's own table; what else the conversion changes (`conversion/*.py` of llama.cpp) is done here: rows of queries and
keys in another order, ones added to norms.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import gguf
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, RopeScalingType, TokenType
from safetensors.torch import load_file
from transformers import AutoConfig, SmolLM3Config, SmolLM3ForCausalLM

from tests.models.checkpoints import FAMILIES, LATENT_YARN_ROPE
from tests.models.families.writing import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

# Left out are windows of Mistral and Qwen 2, and SmolLM3 with layers that rotate by a list: the format has no keys for
# these.
_CARRIED = (
    *("llama", "llama-mha", "llama3-rope", "linear-rope", "yarn-rope", "llama-bias", "llama-sharded", "smollm"),
    *("mistral-full", "qwen2", "qwen3", "qwen3-tied"),
)
# No key says by what queries are scaled; it is the size of a head, as in all published models but one.
_SCALED_BY_HEAD = ("gemma3", "gemma3-rope")


def _changed(write: Callable[..., None], **settings: Any) -> Callable[[Path], None]:  # noqa: ANN401
    return partial(write, **settings)


GGUF_FAMILIES: dict[str, Callable[[Path], None]] = {
    **{name: FAMILIES[name] for name in _CARRIED},
    **{name: _changed(FAMILIES[name], query_pre_attn_scalar=32) for name in _SCALED_BY_HEAD},
    # Without biases, and with one magnitude of YaRN, for which there are keys.
    "deepseek2-lite": FAMILIES["deepseek2-lite"],
    "deepseek2": _changed(FAMILIES["deepseek2"], rope_parameters=LATENT_YARN_ROPE | {"mscale": 0.6}),
    "deepseek3": _changed(FAMILIES["deepseek3"], attention_bias=False),
    "smollm3-every-fourth": partial(
        write_checkpoint, model_class=SmolLM3ForCausalLM, config_class=SmolLM3Config, seed=8, num_hidden_layers=5
    ),
}


@dataclass(frozen=True)
class _Conversion:
    """What the conversion of one architecture does."""

    arch: MODEL_ARCH
    permuted: bool = False
    added_to_norms: float = 0.0


_CONVERSIONS = {
    "LlamaForCausalLM": _Conversion(MODEL_ARCH.LLAMA, permuted=True),
    "MistralForCausalLM": _Conversion(MODEL_ARCH.LLAMA, permuted=True),
    "Qwen2ForCausalLM": _Conversion(MODEL_ARCH.QWEN2),
    "Qwen3ForCausalLM": _Conversion(MODEL_ARCH.QWEN3),
    "SmolLM3ForCausalLM": _Conversion(MODEL_ARCH.SMOLLM3, permuted=True),
    "DeepseekV2ForCausalLM": _Conversion(MODEL_ARCH.DEEPSEEK2),
    "DeepseekV3ForCausalLM": _Conversion(MODEL_ARCH.DEEPSEEK2),
    "Gemma3ForCausalLM": _Conversion(MODEL_ARCH.GEMMA3, added_to_norms=1.0),
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
    conversion = _CONVERSIONS[config.architectures[0]]
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[conversion.arch])
    writer.add_type("model")
    _add_sizes(writer, config)
    _add_windows(writer, config)
    _add_rope(writer, config)
    if vocabulary:
        _add_vocabulary(writer, folder, config)
    for name, tensor in _converted(folder, config, conversion):
        kind = matrices if tensor.dim() > 1 else GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(tensor.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# --- metadata -------------------------------------------------------------------------------------------------------


def _add_sizes(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if hasattr(config, "kv_lora_rank"):
        _add_latent(writer, config)
    elif getattr(config, "head_dim", None) is not None:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_rope_dimension_count(config.head_dim)


def _add_latent(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write what `DeepseekV2Model` of llama.cpp's conversion does; `_add_sizes` has written the number of heads."""
    if config.q_lora_rank is not None:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
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
    if config.model_type == "deepseek_v3":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if "mscale_all_dim" in config.rope_parameters:
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


def _add_windows(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write which layers have a window as new files do, for the small models have it where their families do not."""
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def _add_rope(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    rope = _rope(config)
    writer.add_rope_freq_base(rope["rope_theta"])
    if "sliding_attention" in config.rope_parameters:
        writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def _rope(config: Any) -> dict[str, Any]:  # noqa: ANN401
    """The parameters of the layers without a window."""
    found: dict[str, Any] = config.rope_parameters.get("full_attention", config.rope_parameters)
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


def _converted(folder: Path, config: Any, conversion: _Conversion) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401
    names = gguf.get_tensor_name_map(conversion.arch, config.num_hidden_layers)
    tensors = {
        name: tensor for part in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(part).items()
    }
    if conversion.arch == MODEL_ARCH.DEEPSEEK2:
        tensors = _cut_latent(tensors, config)
    for name, tensor in tensors.items():
        if conversion.permuted and ".q_proj." in name:
            tensor = _permuted(tensor, config.num_attention_heads)
        if conversion.permuted and ".k_proj." in name:
            tensor = _permuted(tensor, config.num_key_value_heads)
        if name.endswith("norm.weight"):
            tensor = tensor + conversion.added_to_norms
        renamed = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert renamed is not None, name
        yield renamed, tensor
    if _rope(config)["rope_type"] == "llama3":
        yield "rope_freqs.weight", llama3_factors(_rope(config), config.head_dim)


def _cut_latent(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Cut `kv_b_proj` in two, the keys' part transposed, and stack the experts of each layer."""
    cut: dict[str, Tensor] = {}
    stacks: dict[str, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        if ".kv_b_proj." in name:
            heads = tensor.view(config.num_attention_heads, -1, config.kv_lora_rank)
            keys, values = heads.split_with_sizes([config.qk_nope_head_dim, config.v_head_dim], dim=1)
            cut[name.replace("kv_b", "k_b")] = keys.transpose(1, 2).contiguous()
            cut[name.replace("kv_b", "v_b")] = values.contiguous()
        elif found := re.fullmatch(r"(.*\.experts)\.(\d+)\.(.*)", name):
            stacks.setdefault(f"{found[1]}.{found[3]}", {})[int(found[2])] = tensor
        else:
            cut[name.replace("e_score_correction_bias", "e_score_correction.bias")] = tensor
    return cut | {name: torch.stack([experts[i] for i in range(len(experts))]) for name, experts in stacks.items()}


def _permuted(tensor: Tensor, heads: int) -> Tensor:
    """Bring each number of a head's first half beside that of its second, as `LlamaModel.permute` does."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()


def llama3_factors(rope: dict[str, Any], head_dim: int) -> Tensor:
    """What the wavelengths are multiplied with, as `generate_extra_tensors` computes it."""
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    factors = []
    for frequency in frequencies.tolist():
        periods = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)  # in the length of training
        smooth = min(max((periods - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return torch.tensor(factors)
