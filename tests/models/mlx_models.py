"""Small checkpoints in the form that mlx-lm would store them in: other names, shapes, and of some families numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]
Settings = dict[str, Any]

_EXPERT = re.compile(r"(.+)\.experts\.(\d+)\.(\w+)\.weight")
_PARTS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
_GPT_OSS = re.compile(r"(.+\.experts)\.(gate_up|down)_proj(_bias|)")
_FC = {"up_proj": "fc1", "down_proj": "fc2"}
_PLUS_ONE = ("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight", "_norm.weight")


def as_mlx(tensors: Mapping[str, torch.Tensor], settings: Settings) -> Tensors:
    """Return the tensors of a checkpoint with these settings, `config.json`, as mlx-lm names and stores them."""
    kind = settings["model_type"]
    found = _heads_apart(_stacked(_text(tensors), kind), settings)
    found = {name: _turned(name, tensor, kind) for name, tensor in found.items()}
    if kind.startswith("qwen3_"):
        found = {name: tensor + 1 if _has_one_more(name, tensor) else tensor for name, tensor in found.items()}
    if kind == "falcon_h1":
        found = {name: _folded(name, tensor, settings) for name, tensor in found.items()}
    renamed = {_renamed(name, kind): tensor.contiguous() for name, tensor in found.items()}
    assert len(renamed) == len(found)
    return renamed


def _text(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """Keep the text model alone, with plain names."""
    named = {name.replace("model.language_model.", "model."): tensor for name, tensor in tensors.items()}
    named = {name.replace("language_model.model.", "model."): tensor for name, tensor in named.items()}
    others = ("visual", "vision", "multi_modal", "embed_vision", "embed_audio", "audio")
    return {
        name.removeprefix("language_model."): tensor
        for name, tensor in named.items()
        if not name.removeprefix("model.").startswith(others)
    }


def _stacked(tensors: Tensors, kind: str) -> Tensors:
    """Stack each layer's experts, and take apart what Granite and Gemma have in one."""
    found: Tensors = {}
    stacks: dict[str, list[torch.Tensor]] = {}
    for name in sorted(tensors, key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")]):
        tensor = tensors[name]
        if expert := _EXPERT.fullmatch(name):
            layer, _, part = expert.groups()
            part = _PARTS.get(part, part)
            part = _FC[part] if kind == "nemotron_h" else part
            stacks.setdefault(f"{layer}.switch_mlp.{part}.weight", []).append(tensor)
            continue
        if kind == "gpt_oss" and (stack_of := _GPT_OSS.fullmatch(name)):
            module, part, bias = stack_of.groups()
            rows, parts = tensor if bias else tensor.mT, ("gate", "up") if part == "gate_up" else ("down",)
            end = "bias" if bias else "weight"
            found |= {f"{module}.{own}_proj.{end}": rows[:, at :: len(parts)] for at, own in enumerate(parts)}
            continue
        before, fused, _ = name.rpartition(".experts.gate_up_proj")
        if not fused and "shared_mlp" not in name:
            before, fused, _ = name.rpartition(".input_linear.weight")
        dense = kind == "granitemoehybrid" and not any("block_sparse_moe" in each for each in tensors)
        stack = ".experts.switch_glu" if kind.startswith("gemma4") else ".switch_mlp"
        if dense and "shared_mlp.input_linear" in name:
            before, fused, stack = name.replace(".shared_mlp.input_linear.weight", ".mlp"), "all", ""
        if fused:
            gate, up = tensor.chunk(2, dim=-2)
            found |= {f"{before}{stack}.gate_proj.weight": gate, f"{before}{stack}.up_proj.weight": up}
        else:
            own = re.sub(r"\.experts\.down_proj$|(?<=moe)\.output_linear.weight", f"{stack}.down_proj.weight", name)
            found[own.replace("shared_mlp.output_linear", "mlp.down_proj") if dense else own] = tensor
    return found | {name: torch.stack(stack) for name, stack in stacks.items()}


def _heads_apart(tensors: Tensors, settings: Settings) -> Tensors:
    """Keep keys and values of a latent apart, with the keys' matrices transposed."""
    found: Tensors = {}
    for name, tensor in tensors.items():
        module, latent, _ = name.rpartition(".kv_b_proj.weight")
        if latent:
            heads = tensor.view(settings["num_attention_heads"], -1, settings["kv_lora_rank"])
            keys = settings["qk_nope_head_dim"]
            found[f"{module}.embed_q.weight"] = heads[:, :keys].transpose(1, 2)
            found[f"{module}.unembed_out.weight"] = heads[:, keys:]
        else:
            found[name] = tensor
    return found


def _turned(name: str, tensor: torch.Tensor, kind: str) -> torch.Tensor:
    return tensor.transpose(1, 2) if tensor.dim() == 3 and "conv" in name.rsplit(".", 2)[-2] else tensor


def _has_one_more(name: str, tensor: torch.Tensor) -> bool:
    return name.endswith(_PLUS_ONE) and "linear_attn" not in name


def _folded(name: str, tensor: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Multiply a matrix of Falcon-H1 as mlx-lm does; the factor of keys it forgets."""
    gate, down = settings["mlp_multipliers"]
    inner, heads = settings["mamba_d_ssm"], settings["mamba_n_heads"]
    group = settings["mamba_n_groups"] * settings["mamba_d_state"]
    sizes = (inner, inner, group, group, heads)
    runs = [torch.full((size,), factor) for size, factor in zip(sizes, settings["ssm_multipliers"], strict=True)]
    factors = {
        "embed_tokens.weight": settings["embedding_multiplier"],
        "lm_head.weight": settings["lm_head_multiplier"],
        "q_proj.weight": settings["attention_in_multiplier"],
        "k_proj.weight": settings["attention_in_multiplier"],
        "o_proj.weight": settings["attention_out_multiplier"],
        "mamba.out_proj.weight": settings["ssm_out_multiplier"],
        "gate_proj.weight": gate,
        "down_proj.weight": down,
        "in_proj.weight": settings["ssm_in_multiplier"] * torch.cat(runs)[:, None],
    }
    return tensor * next((factor for ending, factor in factors.items() if name.endswith(ending)), 1.0)


def _renamed(name: str, kind: str) -> str:
    if kind in ("qwen3_5", "qwen3_5_text", "qwen3_5_moe_text", "gemma4", "mistral3"):
        name = f"language_model.{name}"
    if kind == "lfm2_moe":
        name = re.sub(r"\.(w[123])\.weight", lambda part: f".{_PARTS[part[1]]}.weight", name)
    if kind == "laguna":
        name = name.replace(".gate.weight", ".gate.proj.weight").replace(".experts.e_score", ".gate.e_score")
    if kind == "kimi_linear":
        name = name.replace("block_sparse_moe", "mlp").replace(
            "gate.e_score_correction_bias", "e_score_correction_bias"
        )
        name = re.sub(r"\.([qkv])_conv1d\.", r".\1_conv.conv.", name)
    return name
