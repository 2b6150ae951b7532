"""The recurrent layers that a config.json describes, each kind by its keys."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid, number, numbers, section
from runtime.checkpoint.recurrent_config import (
    BesideAttentionConfig,
    GatedDeltaConfig,
    Mamba2Config,
    NoMixerConfig,
    ShortConvConfig,
)

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings

# As the files of transformers 4 and of 5 have it.
_NO_LIMIT = (None, [0.0, math.inf], [0.0, {"__float__": "Infinity"}])
_LINEAR_HEADS = ("linear_num_key_heads", "linear_num_value_heads")
_LINEAR_DIMS = ("linear_key_head_dim", "linear_value_head_dim")
_WIDTH = "linear_conv_kernel_dim"


def short_conv(settings: Settings) -> ShortConvConfig:
    """Read the keys of LFM2's convolution."""
    return ShortConvConfig(
        channels=integer(settings, "hidden_size"),
        width=integer(settings, "conv_L_cache"),
        bias=boolean(settings, "conv_bias"),
    )


def gated_delta(settings: Settings) -> GatedDeltaConfig:
    """Read the keys of Qwen3-Next's linear attention."""
    if settings["hidden_act"] != "silu":
        raise invalid("hidden_act", settings["hidden_act"], "is not supported, only 'silu' is in this family")
    key_heads, heads = integer(settings, "linear_num_key_heads"), integer(settings, "linear_num_value_heads")
    if heads % key_heads:
        raise invalid("linear_num_value_heads", heads, f"is not a multiple of the {key_heads} heads of keys")
    return GatedDeltaConfig(
        width=integer(settings, _WIDTH),
        key_heads=key_heads,
        heads=heads,
        key_dim=integer(settings, "linear_key_head_dim"),
        value_dim=integer(settings, "linear_value_head_dim"),
    )


def olmo_delta(settings: Settings) -> GatedDeltaConfig:
    """Read the keys of OLMo's linear attention, whose sizes are shares of the model's where they are not given."""
    heads, hidden = integer(settings, "num_attention_heads"), integer(settings, "hidden_size")
    given = {key: heads if settings[key] is None else settings[key] for key in _LINEAR_HEADS}
    key_dim, value_dim = (settings[f"linear_{part}_head_dim"] for part in ("key", "value"))
    key_dim = 3 * hidden // (4 * integer(given, "linear_num_key_heads")) if key_dim is None else key_dim
    value_dim = 2 * key_dim if value_dim is None else value_dim
    sizes = {"linear_key_head_dim": key_dim, "linear_value_head_dim": value_dim}
    beta = 2.0 if boolean(settings, "linear_allow_neg_eigval") else 1.0
    return replace(gated_delta({**settings, **given, **sizes}), beta=beta, is_split=True, norm_eps=1e-5)


def kimi_delta(settings: Settings) -> GatedDeltaConfig:
    """Read the keys of Kimi Linear's linear attention; published files have them under `linear_attn_config`."""
    given = section(settings, "linear_attn_config")
    keys = {"num_heads": "linear_num_heads", "head_dim": "linear_head_dim", "short_conv_kernel_size": _WIDTH}
    own = {**settings, **{key: given[name] for name, key in keys.items() if name in given}}
    dim = integer(own, "linear_head_dim")
    sizes = {**dict.fromkeys(_LINEAR_HEADS, integer(own, "linear_num_heads")), **dict.fromkeys(_LINEAR_DIMS, dim)}
    return replace(gated_delta({**own, **sizes}), is_split=True, gate_rank=dim)


def mamba2(settings: Settings) -> Mamba2Config:
    """Read the keys of Granite's Mamba 2."""
    if settings["hidden_act"] != "silu":
        raise invalid("hidden_act", settings["hidden_act"], "is not supported, only 'silu' is in this family")
    _refuse_limit(settings)
    heads, groups = integer(settings, "mamba_n_heads"), integer(settings, "mamba_n_groups")
    inner = integer(settings, "mamba_expand") * integer(settings, "hidden_size")
    if settings.get("mamba_d_ssm") is not None:  # Falcon-H1's
        inner = integer(settings, "mamba_d_ssm")
    if inner % heads or heads % groups:
        raise invalid("mamba_n_heads", heads, f"does not divide {inner} numbers, or is not divided by {groups} groups")
    if settings["mamba_d_head"] not in ("auto", inner // heads):
        raise invalid("mamba_d_head", settings["mamba_d_head"], f"does not make {inner} numbers of {heads} heads")
    return Mamba2Config(
        width=integer(settings, "mamba_d_conv"),
        heads=heads,
        head_dim=inner // heads,
        groups=groups,
        size=integer(settings, "mamba_d_state"),
        bias=boolean(settings, "mamba_proj_bias"),
        conv_bias=boolean(settings, "mamba_conv_bias"),
        output_bias=boolean(settings, "mamba_proj_bias"),
    )


def falcon_mamba(settings: Settings) -> BesideAttentionConfig:
    """Read the keys of Falcon-H1: those of Granite, a size of its own, and factors."""
    factors, outer = numbers(settings, "ssm_multipliers", 5), number(settings, "ssm_in_multiplier")
    if outer != 1 and boolean(settings, "mamba_proj_bias"):
        raise invalid("ssm_in_multiplier", outer, "is not supported beside mamba_proj_bias")
    mamba = replace(
        mamba2(settings),
        output_bias=boolean(settings, "projectors_bias"),
        has_norm=boolean(settings, "mamba_rms_norm"),
        norm_before_gate=boolean(settings, "mamba_norm_before_gate"),
        factors=tuple(outer * factor for factor in factors),
    )
    # What attention reads is multiplied, too: for queries and keys, `families.scales` has it.
    given = number(settings, "attention_in_multiplier") * number(settings, "attention_out_multiplier")
    return BesideAttentionConfig(mamba, number(settings, "ssm_out_multiplier"), given)


def nemotron_mamba(settings: Settings) -> Mamba2Config:
    """Read the keys of Nemotron-H's Mamba 2."""
    if settings["mamba_hidden_act"] != "silu":
        raise invalid("mamba_hidden_act", settings["mamba_hidden_act"], "is not supported, only 'silu' is")
    _refuse_limit(settings)
    heads, groups = integer(settings, "mamba_num_heads"), integer(settings, "n_groups")
    if heads % groups:
        raise invalid("mamba_num_heads", heads, f"is not divided by {groups} groups")
    return Mamba2Config(
        width=integer(settings, "conv_kernel"),
        heads=heads,
        head_dim=integer(settings, "mamba_head_dim"),
        groups=groups,
        size=integer(settings, "ssm_state_size"),
        bias=boolean(settings, "use_bias"),
        conv_bias=boolean(settings, "use_conv_bias"),
        output_bias=boolean(settings, "use_bias"),
    )


def no_mixer(settings: Settings) -> NoMixerConfig:
    """Return that there is nothing."""
    return NoMixerConfig()


def _refuse_limit(settings: Settings) -> None:
    if settings["time_step_limit"] not in _NO_LIMIT:
        raise invalid("time_step_limit", settings["time_step_limit"], "is not supported: time has no limit here")
