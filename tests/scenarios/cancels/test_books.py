"""The books that the simulation keeps from events: whatever does not add up is noticed (I11), and so is silence."""

from __future__ import annotations

import pytest
import trio

from actors.core.events import Cancelled, Committed, GenerationEvent, Granted, Queued, Released, StepEnded, Submitted
from actors.core.life import State
from actors.core.receipts import CancelReason
from runtime.step.step import StepResult
from tests.fakes.simulation import ask, open_simulation, prompt, run

NOTHING = StepResult(segments=(), started_at=0.0, finished_at=0.0, layer_ends=())
RUNNING, STRANGER = ("running", 0), ("stranger", 0)


@pytest.mark.parametrize(
    ("name", "event", "says"),
    [
        ("queued", Queued(*RUNNING, 5), "I11: .* joins the queue twice"),
        ("granted", Granted(*STRANGER, 1, 0, ()), "I5: .* though not waiting for one"),
        ("granted", Granted(*STRANGER, 0, 0, ()), "I1: slot 0 is granted to .* and .* holds it"),
        ("granted", Granted(*STRANGER, 1, 0, ()), "I11: slot 1 is granted to .* by what was told only"),
        ("submitted", Submitted(*STRANGER, State.DECODE, 1, False), "I11: .* holds no slot"),
        ("committed", Committed(*RUNNING, 0, False, 0, 1, 0, 0), "I11: the rows told of are"),
        ("cancelled", Cancelled(*RUNNING, 0.0), "I11: .* ends"),
        ("released", Released(*STRANGER, 1, None, 0, 0), "I11: .* released from slot 1, which it does not hold"),
        ("released", Released(*RUNNING, 0, CancelReason.FAULT, 0, 0), "I11: slot 0 is released, and not free"),
    ],
)
def test_what_is_told_and_does_not_happen_is_noticed(name: str, event: GenerationEvent, says: str) -> None:
    async def scenario() -> None:
        async with open_simulation(slots=2) as sim, trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, ask("running", prompt(9)))
            await trio.sleep(0.02)
            observers = sim.engine.manager.observers
            observers.tell(getattr(observers, name), event)

    with pytest.raises(BaseExceptionGroup) as caught:
        run(scenario)
    assert caught.group_contains(AssertionError, match=says)


def test_an_observer_of_the_simulations_own_that_raises_is_noticed() -> None:
    """Else it would check nothing from then on, and all would look well."""

    async def scenario() -> None:
        async with open_simulation() as sim:
            observers = sim.engine.manager.observers
            assert sim.watch.books in observers
            observers.tell(observers.step_ended, StepEnded(1, False, NOTHING))  # of no step that has begun

    with pytest.raises(BaseExceptionGroup) as caught:
        run(scenario)
    assert caught.group_contains(AssertionError, match="Books.* raised, and the log says what")
