"""The experts that a config.json describes, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.experts_config import MAX_EXPERTS, ExpertsConfig
from runtime.checkpoint.json_fields import boolean, integer, invalid, number

if TYPE_CHECKING:
    from runtime.checkpoint.experts_config import Experts
    from runtime.checkpoint.json_fields import Settings

# Transformers knows one number by two names, and its own files and the published ones do not agree on which.
_COUNT_KEYS = ("num_local_experts", "num_experts")


def no_experts(settings: Settings, num_layers: int) -> Experts:
    """Return that every layer has a plain MLP."""
    return (None,) * num_layers


def mixtral_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Mixtral: experts in every layer, as wide as `intermediate_size` says."""
    count, per_row = _counts(settings)
    return (ExpertsConfig(count, per_row, integer(settings, "intermediate_size")),) * num_layers


def qwen_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Qwen3-MoE: experts in each layer that neither `decoder_sparse_step` nor a list leaves out."""
    count, per_row = _counts(settings)
    width, normalised = integer(settings, "moe_intermediate_size"), boolean(settings, "norm_topk_prob")
    experts = ExpertsConfig(count, per_row, width, normalised=normalised)
    step, plain = integer(settings, "decoder_sparse_step"), settings["mlp_only_layers"] or []
    if not isinstance(plain, list) or any(not isinstance(layer, int) for layer in plain):
        raise invalid("mlp_only_layers", plain, "is not a list of layers")
    return tuple(experts if (layer + 1) % step == 0 and layer not in plain else None for layer in range(num_layers))


def gpt_oss_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of gpt-oss: experts with biases and a clamped SwiGLU in every layer."""
    count, per_row = _counts(settings)
    clamped = number(settings, "swiglu_alpha"), number(settings, "swiglu_limit")
    width = integer(settings, "intermediate_size")
    return (ExpertsConfig(count, per_row, width, bias=True, clamped=clamped),) * num_layers


def _counts(settings: Settings) -> tuple[int, int]:
    """Return how many experts a layer has, and how many a row goes through."""
    found = {integer(settings, key) for key in _COUNT_KEYS if settings.get(key) is not None}
    if len(found) > 1:
        raise invalid("num_experts", settings["num_experts"], f"differs from num_local_experts, {max(found)}")
    count = found.pop() if found else integer(settings, "default_num_experts")
    if count > MAX_EXPERTS:
        raise invalid("num_experts", count, f"is more than the {MAX_EXPERTS} that are supported")
    per_row = integer(settings, "num_experts_per_tok")
    if per_row > count:
        raise invalid("num_experts_per_tok", per_row, f"is more than the {count} experts of a layer")
    return count, per_row
