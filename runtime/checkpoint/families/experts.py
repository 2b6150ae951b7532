"""The experts that a config.json describes, layer by layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.experts_config import MAX_EXPERTS, ExpertsConfig
from runtime.checkpoint.json_fields import boolean, integer, invalid, number

if TYPE_CHECKING:
    from runtime.checkpoint.experts_config import Experts, Gating
    from runtime.checkpoint.json_fields import Settings

# Transformers knows one number by two names, and its own files and the published ones do not agree on which.
_COUNT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")


def no_experts(settings: Settings, num_layers: int) -> Experts:
    """Return that every layer has a plain MLP."""
    return (None,) * num_layers


def mixtral_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Mixtral: experts in every layer, as wide as `intermediate_size` says."""
    count, per_row = _counts(settings)
    return (ExpertsConfig(count, per_row, integer(settings, "intermediate_size")),) * num_layers


def olmoe_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of OLMoE: those of Mixtral, but that weights may be shares of all experts."""
    if settings.get("clip_qkv") is not None:
        raise invalid("clip_qkv", settings["clip_qkv"], "is not supported")
    normalised = boolean(settings, "norm_topk_prob")
    return tuple(one and replace(one, normalised=normalised) for one in mixtral_experts(settings, num_layers))


def qwen_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Qwen3-MoE: experts in each layer that neither `decoder_sparse_step` nor a list leaves out."""
    count, per_row = _counts(settings)
    width, normalised = integer(settings, "moe_intermediate_size"), boolean(settings, "norm_topk_prob")
    experts = ExpertsConfig(count, per_row, width, normalised=normalised)
    step, plain = integer(settings, "decoder_sparse_step"), settings["mlp_only_layers"] or []
    if not isinstance(plain, list) or any(not isinstance(layer, int) for layer in plain):
        raise invalid("mlp_only_layers", plain, "is not a list of layers")
    return tuple(experts if (layer + 1) % step == 0 and layer not in plain else None for layer in range(num_layers))


def qwen_shared_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Qwen3-Next: those of Qwen3-MoE, and a gated MLP for all rows beside the experts."""
    size = integer(settings, "shared_expert_intermediate_size")
    experts = qwen_experts(settings, num_layers)
    return tuple(one and replace(one, shared_size=size, shared_gate=True) for one in experts)


def lfm2_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of LFM2-MoE: plain layers first, then sigmoids with a correction."""
    if not boolean(settings, "use_expert_bias"):
        raise invalid("use_expert_bias", False, "is not supported, only true is in this family")
    plain = min(num_layers, integer(settings, "num_dense_layers", minimum=0))
    count, per_row = _counts(settings)
    experts = ExpertsConfig(
        count,
        per_row,
        integer(settings, "moe_intermediate_size"),
        "sigmoid",
        normalised=boolean(settings, "norm_topk_prob"),
        scaling=number(settings, "routed_scaling_factor"),
        least_sum=1e-6,
    )
    return (*no_experts(settings, plain), *(experts,) * (num_layers - plain))


def gpt_oss_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of gpt-oss: experts with biases and a clamped SwiGLU in every layer."""
    count, per_row = _counts(settings)
    clamped = number(settings, "swiglu_alpha"), number(settings, "swiglu_limit")
    width = integer(settings, "intermediate_size")
    return (ExpertsConfig(count, per_row, width, bias=True, clamped=clamped),) * num_layers


def deepseek2_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of DeepSeek-V2: shares of all experts, some files with groups (arXiv 2405.04434, section 2.2)."""
    if settings["scoring_func"] not in (None, "softmax"):
        raise invalid("scoring_func", settings["scoring_func"], "is not supported, only 'softmax' is in this family")
    if settings["topk_method"] not in ("greedy", "group_limited_greedy"):
        raise invalid("topk_method", settings["topk_method"], "is neither 'greedy' nor 'group_limited_greedy'")
    if boolean(settings, "norm_topk_prob"):
        # DeepSeek's own code divides by the sum and does not scale then; transformers does the opposite.
        raise invalid("norm_topk_prob", True, "is not supported: what it means in this family is not agreed on")
    return _deepseek_experts(settings, num_layers, "softmax", grouped=settings["topk_method"] != "greedy")


def deepseek3_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of DeepSeek-V3: sigmoids with a correction, in groups (arXiv 2412.19437, section 2.1.2)."""
    for key, known in (("scoring_func", "sigmoid"), ("topk_method", "noaux_tc")):
        if settings[key] not in (None, known):
            raise invalid(key, settings[key], f"is not supported, only {known!r} is in this family")
    return _deepseek_experts(settings, num_layers, "sigmoid", grouped=True)


def _deepseek_experts(settings: Settings, num_layers: int, gating: Gating, *, grouped: bool) -> Experts:
    """Read what both have in common: plain layers first, then experts, and beside these an MLP for all rows."""
    if integer(settings, "moe_layer_freq") != 1:
        raise invalid("moe_layer_freq", settings["moe_layer_freq"], "is not supported, only 1 is")
    plain = min(num_layers, integer(settings, "first_k_dense_replace", minimum=0))
    if plain == num_layers:
        return no_experts(settings, num_layers)
    count, per_row = _counts(settings)
    groups = integer(settings, "n_group") if grouped else 1
    groups_per_row = integer(settings, "topk_group") if grouped else 1
    # A group is rated by its two best experts, and a row's experts must find room in its groups.
    least = 2 if gating == "sigmoid" and groups > 1 else 1
    if count % groups or count // groups < least:
        raise invalid(
            "n_group", groups, f"does not divide the {count} experts of a layer into groups of {least} or more"
        )
    if groups_per_row > groups or per_row > groups_per_row * (count // groups):
        raise invalid("topk_group", groups_per_row, f"groups of {groups} do not hold the {per_row} experts of a row")
    width = integer(settings, "moe_intermediate_size")
    experts = ExpertsConfig(
        count,
        per_row,
        width,
        gating,
        normalised=boolean(settings, "norm_topk_prob"),
        groups=groups,
        groups_per_row=groups_per_row,
        scaling=number(settings, "routed_scaling_factor"),
        shared_size=width * integer(settings, "n_shared_experts", minimum=0),
    )
    return (*no_experts(settings, plain), *(experts,) * (num_layers - plain))


def _counts(settings: Settings) -> tuple[int, int]:
    """Return how many experts a layer has, and how many a row goes through."""
    found = {integer(settings, key) for key in _COUNT_KEYS if settings.get(key) is not None}
    if len(found) > 1:
        raise invalid("num_experts", min(found), f"is {max(found)} by another of its names, {', '.join(_COUNT_KEYS)}")
    count = found.pop() if found else integer(settings, "default_num_experts")
    if count * integer(settings, "num_hidden_layers") > MAX_EXPERTS:
        raise invalid("num_experts", count, f"makes more than {MAX_EXPERTS} in all layers, which no model has")
    per_row = integer(settings, "num_experts_per_tok")
    if per_row > count:
        raise invalid("num_experts_per_tok", per_row, f"is more than the {count} experts of a layer")
    return count, per_row
