"""Plans of faults: what they say, and when each fault is due."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.testing.faults import (
    DeviceError,
)
from tests.unit.runtime.testing.plans import plan

STEP = 0.01  # seconds


def test_when_a_fault_is_due() -> None:
    once, again = DeviceError(step=3), DeviceError(step=3, every=5)
    assert [count for count in range(1, 15) if once.is_due(count)] == [3]
    assert [count for count in range(1, 15) if again.is_due(count)] == [3, 8, 13]


def test_the_drafter_counts_its_own_steps() -> None:
    chaos = plan(DeviceError(step=3, drafting=True))
    assert chaos.due_at_step(DeviceError, 3, drafting=False) == []
    assert len(chaos.due_at_step(DeviceError, 3, drafting=True)) == 1


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": -1}, {"step": 1, "every": 0}])
def test_counting_starts_at_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DeviceError(**wrong)
