"""The recurrent layers that a config.json describes, each kind by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer
from runtime.checkpoint.recurrent_config import ShortConvConfig

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings


def short_conv(settings: Settings) -> ShortConvConfig:
    """Read the keys of LFM2's convolution."""
    return ShortConvConfig(
        channels=integer(settings, "hidden_size"),
        width=integer(settings, "conv_L_cache"),
        bias=boolean(settings, "conv_bias"),
    )
