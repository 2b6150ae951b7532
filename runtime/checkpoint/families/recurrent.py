"""The recurrent layers that a config.json describes, each kind by its keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid
from runtime.checkpoint.recurrent_config import GatedDeltaConfig, Mamba2Config, ShortConvConfig

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings

# As the files of transformers 4 and of 5 have it.
_NO_LIMIT = (None, [0.0, math.inf], [0.0, {"__float__": "Infinity"}])


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
        width=integer(settings, "linear_conv_kernel_dim"),
        key_heads=key_heads,
        heads=heads,
        key_dim=integer(settings, "linear_key_head_dim"),
        value_dim=integer(settings, "linear_value_head_dim"),
    )


def mamba2(settings: Settings) -> Mamba2Config:
    """Read the keys of Granite's Mamba 2."""
    if settings["hidden_act"] != "silu":
        raise invalid("hidden_act", settings["hidden_act"], "is not supported, only 'silu' is in this family")
    if settings["time_step_limit"] not in _NO_LIMIT:
        raise invalid("time_step_limit", settings["time_step_limit"], "is not supported: time has no limit here")
    heads, groups = integer(settings, "mamba_n_heads"), integer(settings, "mamba_n_groups")
    inner = integer(settings, "mamba_expand") * integer(settings, "hidden_size")
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
    )
