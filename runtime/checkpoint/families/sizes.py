"""Rules that tell the inner width of a layer's MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, number

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings


def plain_mlp(settings: Settings) -> int:
    """Take it as the file says it."""
    return integer(settings, "intermediate_size")


def widest_mlp(settings: Settings) -> int:
    """Take the largest, where the file says one for each layer, as Gemma 3n does."""
    given = settings["intermediate_size"]
    widths = given if isinstance(given, list) and given else [given]
    return max(plain_mlp({"intermediate_size": width}) for width in widths)


def granite_mlp(settings: Settings) -> int:
    """Take the size of what all rows go through, where a layer has no experts beside it, as Granite's hybrids do."""
    return integer(settings, "intermediate_size" if settings["num_local_experts"] else "shared_intermediate_size")


def lfm2_mlp(settings: Settings) -> int:
    """Take two thirds of it, times a factor, rounded up to a multiple, where the file says so, as LFM2 does."""
    size = integer(settings, "intermediate_size")
    if not boolean(settings, "block_auto_adjust_ff_dim"):
        return size
    size = int(2 * size / 3)
    if settings["block_ffn_dim_multiplier"] is not None:
        multiple = integer(settings, "block_multiple_of")
        size = -(-int(number(settings, "block_ffn_dim_multiplier") * size) // multiple) * multiple
    return size
