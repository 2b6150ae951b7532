"""llama-server's `samplers`: which of the filters apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

INFILL = "infill"
"""llama.cpp's sampler for gaps, which leaves few of the likeliest tokens: here the likeliest is drawn."""

NEUTRAL: dict[str, dict[str, float]] = {
    "temperature": {"temperature": 1.0},
    "top_k": {"top_k": 0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "penalties": {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
}
"""The fields of each sampler that cede has, with the values that turn it off."""


def sampling_fields(samplers: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a body that its list of samplers overrules; their order is cede's own.

    Args:
        samplers: their names; None for all.  The others of llama-server's are off unless their own fields turn them on,
            which is refused.
    """
    if samplers is None:
        return {}
    off: dict[str, Any] = {}
    for name, fields in NEUTRAL.items():
        if name not in samplers:
            off |= fields
    return off | {"temperature": 0.0} if INFILL in samplers else off
