"""A device that fails as planned: each fault happens in the step and the layer that was named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from runtime.step.step import Segment
from runtime.testing.faults import (
    Chaos,
    DeviceError,
    NotFinite,
    OutOfMemory,
    SlowStep,
)
from runtime.testing.unreliable import PlannedFault, UnreliableModel
from tests.fakes.simulation import prompt
from tests.models.step_driver import RecordingModel
from tests.models.step_driver import run as run_by_hand
from tests.unit.runtime.testing.plans import plan


def drive(model: RecordingModel, chaos: Chaos, segments: list[Segment], **more: Any) -> None:  # noqa: ANN401
    run_by_hand(UnreliableModel(model, chaos, **more), segments)


def test_a_step_raises_in_the_layer_that_was_named(some_segments: list[Segment]) -> None:
    model = RecordingModel(num_layers=4)
    chaos = plan(DeviceError(step=1, layer=2), OutOfMemory(step=2, layer=99))
    unreliable = UnreliableModel(model, chaos)
    with pytest.raises(PlannedFault, match="layer 2"):
        run_by_hand(unreliable, some_segments)
    assert [name for name, _ in model.calls] == ["begin", "layer 0", "layer 1"]
    with pytest.raises(torch.OutOfMemoryError, match="layer 3"):
        run_by_hand(unreliable, some_segments)
    run_by_hand(unreliable, some_segments)
    assert [fault.what for fault in chaos.fired] == ["device-error", "out-of-memory"]


def test_one_segment_is_not_finite(some_segments: list[Segment]) -> None:
    unreliable = UnreliableModel(RecordingModel(), plan(NotFinite(step=1, segment=4)))
    result = run_by_hand(unreliable, some_segments)
    assert [entry.finite for entry in result.segments] == [True, False, True]
    assert not result.segments[1].computed
    assert not result.segments[1].tokens


def test_a_layer_takes_longer(some_segments: list[Segment]) -> None:
    slept: list[float] = []
    drive(RecordingModel(), plan(SlowStep(step=1, layer=1, seconds=3.5)), some_segments, sleep=slept.append)
    assert slept == [3.5]


@pytest.fixture
def some_segments() -> list[Segment]:
    from runtime.step.step import Segment

    return [Segment(slot, 0, prompt(3)) for slot in range(3)]
