"""The experts that a config.json describes, layer by layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.families.layer_kinds import EXPERTS
from runtime.checkpoint.json_fields import boolean, integer, invalid, number
from runtime.checkpoint.layer_config import MAX_EXPERTS, ExpertsConfig

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.layer_config import Experts, Gating

# Transformers knows one number by two names, and its own files and the published ones do not agree on which.
_COUNT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


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


def granite_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Granite: those of Mixtral, and the width of an MLP for all rows beside the experts."""
    shared = integer(settings, "shared_intermediate_size", minimum=0)
    return tuple(one and replace(one, shared_size=shared) for one in mixtral_experts(settings, num_layers))


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


def granite_hybrid_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Granite's hybrids: those of Mixtral, and an MLP for all rows beside the experts, if any."""
    if settings["num_local_experts"] == 0:
        return no_experts(settings, num_layers)
    size = integer(settings, "shared_intermediate_size")
    return tuple(one and replace(one, shared_size=size) for one in mixtral_experts(settings, num_layers))


def gpt_oss_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of gpt-oss: experts with biases and a clamped SwiGLU in every layer."""
    count, per_row = _counts(settings)
    clamped = number(settings, "swiglu_alpha"), number(settings, "swiglu_limit")
    width = integer(settings, "intermediate_size")
    return (ExpertsConfig(count, per_row, width, bias=True, clamped=clamped),) * num_layers


def gemma4_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Gemma 4: where `enable_moe_block` says so, experts beside the MLP of every layer."""
    if not boolean(settings, "enable_moe_block"):
        return no_experts(settings, num_layers)
    integer(settings, "num_experts")
    count, per_row = _counts({**settings, "num_experts_per_tok": integer(settings, "top_k_experts")})
    width, eps = integer(settings, "moe_intermediate_size"), number(settings, "rms_norm_eps")
    return (ExpertsConfig(count, per_row, width, router_eps=eps, beside_mlp=True),) * num_layers


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
    _refuse_others(settings, scoring_func="sigmoid", topk_method="noaux_tc")
    return _deepseek_experts(settings, num_layers, "sigmoid", grouped=True)


def kimi_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Kimi Linear: those of DeepSeek-V3; and refuse what its own code alone knows."""
    _refuse_others(settings, moe_router_activation_func="sigmoid", use_grouped_topk=True, mla_use_nope=True)
    return deepseek3_experts(settings, num_layers)


def nemotron_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Nemotron-H: those of DeepSeek-V3, in the layers that the file calls so."""
    _refuse_others(settings, mlp_hidden_act="relu2")
    kinds = ["sparse" if kind == EXPERTS else "dense" for kind in settings["layer_types"]]
    experts = deepseek3_experts({**settings, "mlp_layer_types": kinds}, num_layers)
    if any(experts):
        _refuse_others(settings, mlp_bias=False)
    size = integer(settings, "moe_shared_expert_intermediate_size")
    latent = 0 if settings["moe_latent_size"] is None else integer(settings, "moe_latent_size")
    return tuple(one and replace(one, shared_size=size, latent_size=latent) for one in experts)


def mistral4_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Mistral 4: those of DeepSeek, without groups."""
    if settings["n_group"] not in (None, 1):
        raise invalid("n_group", settings["n_group"], "is not supported in this family, only 1 is")
    return _deepseek_experts(settings, num_layers, "softmax", grouped=False)


def minimax_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of MiniMax M2: sigmoids with a correction in every layer."""
    _refuse_others(
        settings,
        scoring_func="sigmoid",
        use_routing_bias=True,
        shared_intermediate_size=0,
        qk_norm_type="per_layer",
        attn_type_list=[1] * num_layers,  # MiniMax-Text-01 has linear attention, too
    )
    count, per_row = _counts(settings)
    return (ExpertsConfig(count, per_row, integer(settings, "intermediate_size"), "sigmoid"),) * num_layers


def laguna_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Laguna: sigmoids with a correction, in all layers but the first where no list says otherwise."""
    sparse = _sparse_layers({**settings, "first_k_dense_replace": 1}, num_layers)
    _refuse_others(
        settings,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[layer for layer, has_experts in enumerate(sparse) if not has_experts],
        moe_router_logit_softcapping=0.0,
        moe_apply_router_weight_on_input=False,
        swa_attention_sink_enabled=False,
    )
    experts = ExpertsConfig(
        *_counts(settings),
        integer(settings, "moe_intermediate_size"),
        "sigmoid",
        scaling=number(settings, "moe_routed_scaling_factor"),
        shared_size=integer(settings, "shared_expert_intermediate_size"),
    )
    return tuple(experts if has_experts else None for has_experts in sparse)


def hunyuan_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Hunyuan: those of Mixtral, and beside the experts an MLP as wide as each of them for all rows.

    Some keys may have a number for each layer; only those of the experts that a row goes through may differ.
    """
    _refuse_others(settings, use_cla=False, use_mixed_mlp_moe=True, moe_layer_num_skipped=0)
    width = integer(settings, "intermediate_size")
    alike = {"moe_intermediate_size": width, "shared_intermediate_size": width, "num_shared_expert": 1}
    for key, known in alike.items():
        if settings.get(key) not in (None, known, [known] * num_layers):
            raise invalid(key, settings[key], f"is not supported, only {known} in all layers is")
    given = settings["moe_topk"]
    per_layer = given if isinstance(given, list) else [given] * num_layers
    if len(per_layer) != num_layers:
        raise invalid("moe_topk", given, f"is not a number for each of {num_layers} layers")
    counts = [_counts({**settings, "moe_topk": per_row}, "moe_topk") for per_row in per_layer]
    return tuple(ExpertsConfig(count, per_row, width, shared_size=width) for count, per_row in counts)


def ernie_experts(settings: Settings, num_layers: int) -> Experts:
    """Read the keys of Ernie 4.5: shares with a correction, in every so many layers of a range, counted from 1."""
    _refuse_others(settings, use_bias=False, moe_norm_min=1e-12)
    count, per_row = _counts(settings, "moe_k")
    width = integer(settings, "moe_intermediate_size")
    shared = width * integer(settings, "moe_num_shared_experts", minimum=0)
    experts = ExpertsConfig(count, per_row, width, "corrected_softmax", shared_size=shared)
    first, last = integer(settings, "moe_layer_start_index", minimum=0), num_layers - 1
    if settings["moe_layer_end_index"] != -1:
        last = integer(settings, "moe_layer_end_index", minimum=0)
    step = integer(settings, "moe_layer_interval")
    return tuple(experts if first <= layer <= last and (layer + 1) % step == 0 else None for layer in range(num_layers))


def _refuse_others(settings: Settings, **known: object) -> None:
    """Raise CheckpointError where a key is there whose value is not the one that its family has."""
    for key, value in known.items():
        if settings.get(key) not in (None, value):
            raise invalid(key, settings[key], f"is not supported, only {value!r} is in this family")


def _deepseek_experts(settings: Settings, num_layers: int, gating: Gating, *, grouped: bool) -> Experts:
    """Read what both have in common: plain layers first, and experts, with an MLP for all rows beside them."""
    if integer(settings, "moe_layer_freq") != 1:
        raise invalid("moe_layer_freq", settings["moe_layer_freq"], "is not supported, only 1 is")
    sparse = _sparse_layers(settings, num_layers)
    if not any(sparse):
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
    return tuple(experts if has_experts else None for has_experts in sparse)


def _sparse_layers(settings: Settings, num_layers: int) -> list[bool]:
    """Return whether each layer has experts: by a list where there is one, else in all layers behind the first few."""
    kinds = settings.get("mlp_layer_types")
    if kinds is None:
        plain = integer(settings, "first_k_dense_replace", minimum=0)
        return [layer >= plain for layer in range(num_layers)]
    if not isinstance(kinds, list) or len(kinds) != num_layers or any(one not in ("dense", "sparse") for one in kinds):
        raise invalid("mlp_layer_types", kinds, f"is not dense or sparse for each of {num_layers} layers")
    return [kind == "sparse" for kind in kinds]


def _counts(settings: Settings, per_row_key: str = "num_experts_per_tok") -> tuple[int, int]:
    """Return how many experts a layer has, and how many a row goes through."""
    found = {integer(settings, key) for key in _COUNT_KEYS if settings.get(key) is not None}
    if len(found) > 1:
        raise invalid("num_experts", min(found), f"is {max(found)} by another of its names, {', '.join(_COUNT_KEYS)}")
    count = found.pop() if found else integer(settings, "default_num_experts")
    if count * integer(settings, "num_hidden_layers") > MAX_EXPERTS:
        raise invalid("num_experts", count, f"makes more than {MAX_EXPERTS} in all layers, which no model has")
    per_row = integer(settings, per_row_key)
    if per_row > count:
        raise invalid(per_row_key, per_row, f"is more than the {count} experts of a layer")
    return count, per_row
