"""The machine's clock is set, or the machine sleeps: what is told of a cancel is told in the time that it is then."""

from __future__ import annotations

import pytest
import trio

from actors.config import EngineConfig
from actors.core.generation import GenerationRequest, Token
from actors.engine import open_engine
from runtime.sampling.params import SamplingParams
from runtime.step.executor import SimulatedExecutor
from runtime.testing.simulated import SimulatedModel, stand_in
from tests.sim.instruments.recording import Recorded
from tests.sim.instruments.spans import Traced

NOON = 1.9e9


class SetExecutor(SimulatedExecutor):
    """One on a machine whose clock a test sets."""

    set_to = NOON

    def wall_clock(self) -> float:
        """Return the time that the machine shows."""
        return self.set_to + trio.current_time()


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_a_receipt_and_a_span_are_of_the_time_that_it_was(autojump_clock: object, jump: float) -> None:
    """Also in the request in which the clock is set; how long things took is as it was."""
    model = SimulatedModel(slots=2, context=256)
    executor = SetExecutor(model, lambda rows: 0.001)
    traced, recorded = Traced(), Recorded()
    async with open_engine(executor, stand_in(model), EngineConfig(slots=2)) as engine:
        with traced.watching(engine), recorded.watching(engine):
            for name in ("before", "meanwhile", "after"):
                with trio.CancelScope() as scope:
                    asked = GenerationRequest(name, ((1, 2, 3),), SamplingParams(temperature=0), max_tokens=200)
                    async with engine.open_request(asked) as request:
                        assert isinstance(await anext(aiter(request)), Token)
                        if name == "meanwhile":
                            executor.set_to += jump
                            await trio.sleep(0.01)
                        scope.cancel()
                        cancelled_at = executor.wall_clock()
                        await trio.lowlevel.checkpoint()
                (receipt,) = engine.receipts(1)
                assert receipt.request_id == name
                assert receipt.last_kernel_at is not None
                assert receipt.slot_freed_at is not None
                assert cancelled_at <= receipt.detected_at + 1e-5
                assert receipt.detected_at <= receipt.slot_freed_at <= cancelled_at + 1
                assert receipt.last_kernel_at <= receipt.slot_freed_at
                await trio.sleep(1)
    seconds = {
        name: ((span.start_time or 0) / 1e9, (span.end_time or 0) / 1e9) for name, span in traced.requests().items()
    }
    for name, set_to in (("before", NOON), ("meanwhile", NOON), ("after", NOON + jump)):
        began, ended = seconds[name]
        assert set_to <= began + 1e-5 < ended < set_to + 10
    marks = [event["ts"] / 1e6 for event in recorded.events if str(event.get("name")).startswith("cancel: ")]
    assert marks == sorted(marks)
    assert 0 < marks[0] < marks[-1] < 10
    recorded.picture()
