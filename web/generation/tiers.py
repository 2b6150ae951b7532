"""Priority of a request: its `priority`, and OpenAI's `service_tier`, a name for some of these numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from web.bodies.fields import ServiceTier

PRIORITIES = {"priority": -10, "auto": 0, "default": 0, "scale": 0, "flex": 10}
"""What each tier means: the lower, the earlier, as in vLLM."""


def priority_of(priority: int | None, tier: ServiceTier | None = None) -> int:
    """Return the priority of a request's body: the number that it gives, or else what its tier means."""
    return PRIORITIES[tier or "default"] if priority is None else priority


def tier_of(priority: int) -> Literal["flex", "default", "priority"]:
    """Return the tier that a request of this priority is served in."""
    if priority <= PRIORITIES["priority"]:
        return "priority"
    return "flex" if priority >= PRIORITIES["flex"] else "default"
