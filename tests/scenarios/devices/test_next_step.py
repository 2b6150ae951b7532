"""On a device that queues, the next step begins before the host reads what the last one drew.

The fake MPS tells in which order layers are given and waited for, and what goes from the host to the device and back.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from runtime.checkpoint.config import ModelConfig
from runtime.nn.ahead_model import AheadModel
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.step.device import MAX_LAYERS_AHEAD
from runtime.step.executor import InlineExecutor
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment
from tests.fakes.devices.mps import fake_mps
from tests.models.step_driver import pages_of
from tests.scenarios.devices.on_mps import on_mps
from tests.scenarios.devices.steps import NOT_ON_MPS, Recorder

STEPS = 4


class Events:
    """The events of a device, numbered as they are recorded.

    Attributes:
        log: numbers of those recorded, and of those waited for, below 0 from -1 on.
    """

    def __init__(self) -> None:
        self.log: list[int] = []
        self.count = 0

    def __call__(self) -> Event:
        """An event."""
        return Event(self)


class Event:
    """As `torch.mps.Event`."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def record(self) -> None:
        """Record it."""
        self._events.count += 1
        self._number = self._events.count
        self._events.log.append(self._number)

    def synchronize(self) -> None:
        """Wait for it."""
        self._events.log.append(-self._number)


def rows() -> list[Segment]:
    """Three sequences, one of them greedy."""
    params = SamplingParams(temperature=0), SamplingParams(seed=1), SamplingParams(seed=2, logprobs=3, top_p=0.5)
    return [
        Segment(slot, 20, [slot], sample=SampleSpec(own, 21, 0), pages=pages_of(slot, 128))
        for slot, own in enumerate(params)
    ]


async def run(model: AheadModel, segments: Sequence[Segment]) -> None:
    """Run a burst."""
    result = await InlineExecutor(model).run_step(StepJob(segments, burst=Burst(STEPS, STEPS, lambda: True)))
    assert result.steps == STEPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", ["embedded", "mistral", "deepseek3-plain"])
async def test_the_host_reads_what_was_drawn_behind_the_next_step_s_first_layers(
    configs: dict[str, ModelConfig], family: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events()
    with fake_mps() as traffic, monkeypatch.context() as patch:
        patch.setattr(torch.mps, "Event", events)
        model = on_mps(configs[family], dtype, kind=AheadModel)
        assert isinstance(model, AheadModel)
        traffic.clear()
        with Recorder() as recorder:
            await run(model, rows())
        assert not [operation for operation in recorder.seen if operation.dtypes & NOT_ON_MPS]
        assert sorted(traffic.read) == ["aten::to"] * (STEPS - 1) + ["tolist"] * STEPS
        assert len(traffic.sent) == 2 * STEPS, "a copy of each type"
    layers = model.num_layers
    log, at = events.log, events.log.index
    for step in range(STEPS - 1):
        read = (step + 1) * (layers + 1)  # each step has an event of each layer, and one of what is read
        assert at(-read) > at(read + MAX_LAYERS_AHEAD), "the device has layers of the next step"
        assert not [number for number in log[: at(-read)] if number < -read], "none of these is waited for"
    for number in range(1, events.count + 1):  # never more than these are given and not waited for
        waited = [-other for other in log[: at(number)] if other < 0]
        read_meanwhile = 1
        assert number - max(waited, default=0) <= MAX_LAYERS_AHEAD + 1 + read_meanwhile
