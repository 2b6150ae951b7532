"""The recurrent layers that a config.json describes, each kind by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid
from runtime.checkpoint.recurrent_config import GatedDeltaConfig, ShortConvConfig

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings


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
