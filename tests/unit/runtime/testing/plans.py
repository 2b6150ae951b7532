"""Plans of a few faults."""

from __future__ import annotations

from runtime.testing.faults import (
    Chaos,
    Fault,
    FaultPlan,
)


def plan(*faults: Fault) -> Chaos:
    """Return what lets these faults happen."""
    return Chaos(FaultPlan(faults))
