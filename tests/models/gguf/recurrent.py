"""What llama.cpp's conversion makes of models with recurrent layers: their keys, and what it does to tensors."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import torch
from gguf import MODEL_ARCH, ExpertGatingFuncType

if TYPE_CHECKING:
    from collections.abc import Callable

    from gguf import GGUFWriter
    from torch import Tensor

# Tensors that stay in float32, whatever the matrices become.
PLAIN = (
    *("conv1d.weight", "conv1d_q.weight", "conv1d_k.weight", "conv1d_v.weight", "shortconv.conv.weight"),
    *("ssm_a", "ssm_d", "ssm_norm.weight"),
)
# Of Falcon-H1.
NO_FACTORS: dict[str, Any] = {
    **dict.fromkeys(("embedding_multiplier", "lm_head_multiplier", "key_multiplier"), 1.0),
    **dict.fromkeys(("attention_in_multiplier", "attention_out_multiplier"), 1.0),
    **dict.fromkeys(("ssm_in_multiplier", "ssm_out_multiplier"), 1.0),
    "ssm_multipliers": [1.0] * 5,
    "mlp_multipliers": [1.0] * 2,
}


def is_factor(config: Any, setting: str) -> bool:  # noqa: ANN401
    """Whether a setting is in no key, but in the matrices."""
    return config.model_type == "falcon_h1" and setting in NO_FACTORS


def add_keys(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    """Write those of a model with recurrent layers, some of them anew; of others, none."""
    kind, types = config.model_type, getattr(config, "layer_types", None) or ()
    if kind.startswith("lfm2"):
        _add_lfm2(writer, config)
    elif kind in ("falcon_h1", "granitemoehybrid"):
        _add_mamba(writer, config.mamba_n_heads, config.mamba_d_head, config.mamba_n_groups, config.mamba_d_state)
        writer.add_ssm_conv_kernel(config.mamba_d_conv)
        if kind == "granitemoehybrid":
            _add_heads(writer, config, config.num_key_value_heads)
            writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    elif kind == "nemotron_h":
        _add_nemotron(writer, config)
    elif kind == "kimi_linear":
        _add_kimi(writer, config)
    elif "linear_attention" in types:
        _add_linear(writer, config)


def _add_heads(writer: GGUFWriter, config: Any, heads: int) -> None:  # noqa: ANN401
    """Write how many heads of keys each layer has; those that do not attend have none."""
    writer.add_head_count_kv([heads if kind == "full_attention" else 0 for kind in config.layer_types])


def _add_lfm2(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_shortconv_l_cache(config.conv_L_cache)
    _add_heads(writer, config, config.num_key_value_heads)
    if config.model_type == "lfm2_moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    else:
        multiple = config.block_multiple_of
        size = int(config.block_ffn_dim_multiplier * int(2 * config.intermediate_size / 3))
        writer.add_feed_forward_length(multiple * math.ceil(size / multiple))


def _add_mamba(writer: GGUFWriter, heads: int, size: int, groups: int, state: int) -> None:
    writer.add_ssm_inner_size(heads * size)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_state_size(state)


def _add_nemotron(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    _add_mamba(writer, config.mamba_num_heads, config.mamba_head_dim, config.n_groups, config.ssm_state_size)
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_rope_scaling_finetuned(False)
    _add_heads(writer, config, config.num_key_value_heads)
    has_experts = "moe" in config.layer_types
    width = config.moe_intermediate_size if has_experts else config.intermediate_size
    writer.add_feed_forward_length([width if kind in ("mlp", "moe") else 0 for kind in config.layer_types])
    if not has_experts:
        return
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(width)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    if config.moe_latent_size is not None:
        writer.add_moe_latent_size(config.moe_latent_size)


def _add_kimi(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    _add_heads(writer, config, 1)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_kda_head_dim(config.linear_head_dim)
    writer.add_leading_dense_block_count(config.mlp_layer_types.index("sparse"))
    writer.add_expert_shared_count(config.num_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def _add_linear(writer: GGUFWriter, config: Any) -> None:  # noqa: ANN401
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
    recurrent = [kind == "linear_attention" for kind in config.layer_types]
    recurrent += [False] * (config.num_hidden_layers - len(recurrent))  # of modules
    writer.add_array(f"{writer.arch}.attention.recurrent_layers", recurrent)
    writer.add_full_attention_interval(4)
    if config.model_type.startswith("qwen3_5"):
        writer.add_rope_dimension_sections([11, 11, 10, 0])


# --- tensors --------------------------------------------------------------------------------------------------------


def split_shared(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Split Granite's fused matrix of the MLP beside the experts, whose parts have names of DeepSeek's."""
    split: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        before, fused, _ = name.partition("shared_mlp.input_linear")
        if fused:
            halves = zip(("gate_proj", "up_proj"), tensor.chunk(2), strict=True)
            split |= {f"{before}mlp.shared_experts.{half}.weight": rows for half, rows in halves}
        else:
            split[name.replace("shared_mlp.output_linear", "mlp.shared_experts.down_proj")] = tensor
    return split


def cut_latent(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Cut `kv_b_proj` in two, the keys' part transposed."""
    cut: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if ".kv_b_proj." in name:
            heads = tensor.view(config.num_attention_heads, -1, config.kv_lora_rank)
            keys, values = heads.split_with_sizes([config.qk_nope_head_dim, config.v_head_dim], dim=1)
            cut[name.replace("kv_b", "k_b")] = keys.transpose(1, 2).contiguous()
            cut[name.replace("kv_b", "v_b")] = values.contiguous()
        else:
            cut[name] = tensor
    return cut


def _named_lfm2(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Rename what the library's table has under other names."""
    renamed = {name.replace("expert_bias", "expert_bias.bias"): tensor for name, tensor in tensors.items()}
    return {name.removeprefix("model." * (".experts." in name)): tensor for name, tensor in renamed.items()}


def _linear(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Put the fused projection's parts of all heads one after the other, and write rates of decay as they are used."""
    keys, heads = config.linear_key_head_dim, config.linear_num_key_heads
    values = config.linear_num_value_heads // heads * config.linear_value_head_dim
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        before, fused, _ = name.partition("in_proj_qkvz.")
        if fused:
            by_head = tensor.view(heads, -1, tensor.shape[1])
            *mixed, gate = (part.flatten(0, 1) for part in by_head.split_with_sizes([keys, keys, values, values], 1))
            found |= {f"{before}in_proj_qkv.weight": torch.cat(mixed), f"{before}in_proj_z.weight": gate}
        elif name.endswith(".A_log"):
            found[name] = -tensor.exp()
        else:
            found[name.replace(".dt_bias", ".dt_proj.bias")] = tensor
    return found


def _tiled(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Put the first head of values of each head of keys before all second ones."""
    groups, heads, size = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim
    keys = 2 * groups * config.linear_key_head_dim

    def tiled(tensor: Tensor, size: int) -> Tensor:
        by_head = tensor.view(groups, heads // groups, size, *tensor.shape[1:])
        return by_head.transpose(0, 1).reshape(tensor.shape)

    found: dict[str, Tensor] = {}
    for name, tensor in _linear(tensors, config).items():
        part = name.partition(".linear_attn.")[2].partition(".")[0]
        if part in ("in_proj_qkv", "conv1d"):
            tensor = torch.cat((tensor[:keys], tiled(tensor[keys:], size)))
        elif part == "out_proj":
            tensor = tiled(tensor.T, size).T.contiguous()
        elif part and part != "norm":
            tensor = tiled(tensor, size if part == "in_proj_z" else 1)
        found[name] = tensor
    return found


def _mamba(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Write rates of decay as they are used, vectors of heads as columns, and a norm by its groups."""
    groups = config.n_groups if config.model_type == "nemotron_h" else config.mamba_n_groups
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith((".A_log", ".D")):
            tensor = (-tensor.exp() if name.endswith(".A_log") else tensor).reshape(-1, 1)
        elif name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
            tensor = tensor.reshape(groups, -1)
        own = re.sub(r"^backbone(\.layers\.\d+)\.mixer\.experts\.", r"model\1.mlp.experts.", name)
        found[own.replace(".dt_bias", ".dt_proj.bias")] = tensor
    return found


def _granite(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Likewise, and split the fused matrix of what all rows go through, which is the MLP where there are no experts."""
    own = ".mlp.shared_experts." if config.num_local_experts else ".mlp."
    split = split_shared(_mamba(tensors, config), config)
    return {name.replace(".mlp.shared_experts.", own): tensor for name, tensor in split.items()}


def _falcon(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Likewise, and multiply matrices with the factors."""
    gate, down = config.mlp_multipliers
    inner, group = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
    sizes = torch.tensor([inner, inner, group, group, config.mamba_n_heads])
    rows = config.ssm_in_multiplier * torch.tensor(config.ssm_multipliers).repeat_interleave(sizes)[:, None]
    inputs = config.attention_in_multiplier
    factors = {
        "embed_tokens": config.embedding_multiplier,
        "lm_head": config.lm_head_multiplier,
        "q_proj": inputs,
        "k_proj": inputs * config.key_multiplier,
        "v_proj": inputs,
        "o_proj": config.attention_out_multiplier,
        "out_proj": config.ssm_out_multiplier,
        "in_proj": rows,
        "gate_proj": gate,
        "down_proj": down,
    }
    return {
        name: tensor * factors.get(name.removesuffix(".weight").rpartition(".")[2], 1.0)
        for name, tensor in _mamba(tensors, config).items()
    }


def _kimi(tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:  # noqa: ANN401
    """Cut `kv_b_proj`, write rates of decay as they are used, and these and kernels in four dimensions."""
    found: dict[str, Tensor] = {}
    for name, tensor in cut_latent(tensors, config).items():
        if name.endswith(".A_log"):
            tensor = -tensor.exp().reshape(1, 1, -1, 1)
        elif name.endswith("conv1d.weight"):
            tensor = tensor.reshape(1, len(tensor), 1, -1)
        found[name.replace(".dt_bias", ".dt_proj.bias")] = tensor
    return found


REWRITES: dict[MODEL_ARCH, Callable[[dict[str, Tensor], Any], dict[str, Tensor]]] = {
    MODEL_ARCH.LFM2MOE: _named_lfm2,
    MODEL_ARCH.QWEN3NEXT: _linear,
    MODEL_ARCH.QWEN35: _tiled,
    MODEL_ARCH.QWEN35MOE: _tiled,
    MODEL_ARCH.FALCON_H1: _falcon,
    MODEL_ARCH.GRANITE_HYBRID: _granite,
    MODEL_ARCH.KIMI_LINEAR: _kimi,
    MODEL_ARCH.NEMOTRON_H: _mamba,
    MODEL_ARCH.NEMOTRON_H_MOE: _mamba,
}
