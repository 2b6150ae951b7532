"""A slow layer and a hang-up; logits that are no numbers: the second example of docs/understand/fault-testing.md."""

from __future__ import annotations

import trio

from actors.core.generation import Failed
from runtime.errors import StepFailed
from runtime.testing.faults import Chaos, FaultPlan, NotFinite, SlowStep
from tests.fakes.simulation import ask, open_simulation, prompt, simulated


@simulated()  # under several schedulers, each fixed by its seed
async def test_a_hang_up_frees_the_slot() -> None:
    async with open_simulation(slots=1, chaos=Chaos(FaultPlan((SlowStep(step=2, seconds=0.5),)))) as sim:
        victim = await sim.client(ask("a", prompt(40)), hang_up_after=3)
        assert victim.receipt.kept_tokens == 42


@simulated()
async def test_logits_that_are_no_numbers_cost_one_client() -> None:
    async with open_simulation(slots=2, chaos=Chaos(FaultPlan((NotFinite(step=5, segment=0),)))) as sim:
        async with trio.open_nursery() as clients:
            for name, start in (("a", 3), ("b", 4)):
                clients.start_soon(sim.client, ask(name, prompt(40, start=start), max_tokens=20))
        assert len(sim.fired) == 1
        (victim,) = (story for story in sim.stories.values() if isinstance(story.last(), Failed))
        assert isinstance(victim.failed(), StepFailed)
