"""A run of the engine is fixed by one integer, and a wait for ever is found."""

from __future__ import annotations

import functools

import pytest
import trio
import trio.testing

from tests.fakes.simulation import ask, open_simulation, prompt, run
from tests.sim.scheduler import Hung


def trace(seed: int) -> list[tuple[str, float]]:
    """The order in which tasks ran, and when."""
    steps: list[tuple[str, float]] = []

    class Tracer(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            steps.append((task.name, trio.current_time()))

    async def scenario() -> None:
        async with open_simulation(slots=2) as sim, trio.open_nursery() as nursery:
            for n in range(4):
                asked = ask(f"r{n}", prompt(9, start=n + 3))
                nursery.start_soon(functools.partial(sim.client, asked, hang_up_at=0.02 + n / 50))

    run(scenario, seed=seed, instruments=[Tracer()])
    return steps


def test_the_seed_fixes_the_whole_schedule() -> None:
    assert trace(7) == trace(7)
    assert len({tuple(trace(seed)) for seed in range(4)}) > 1


def test_a_wait_for_ever_is_found() -> None:
    async def scenario() -> None:
        with trio.CancelScope(shield=True):
            await trio.Event().wait()

    with pytest.raises(Exception, match="would never end"):
        run(scenario)


def test_a_run_for_ever_in_which_no_time_passes_is_found() -> None:
    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            while True:
                await trio.lowlevel.checkpoint()

    with pytest.raises(ExceptionGroup) as caught:
        run(scenario)
    assert caught.group_contains(Hung, match="would never end")
