"""Instruments beside what the engine did, in virtual time."""

from __future__ import annotations

import trio

from actors.core.events import Emitted
from actors.core.generation import Failed
from actors.core.observer import Observer
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, DeviceError, FaultPlan
from tests.fakes.simulation import ask, open_simulation, prompt, simulated, storm
from tests.sim.instruments.counters import Counted
from tests.sim.instruments.happened import Happened


@simulated()
async def test_a_generation_is_timed_from_the_queue_to_its_end() -> None:
    watched = Counted()
    async with open_simulation(slots=1) as sim:
        with watched.watching(sim.engine):
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sim.client, ask("a", prompt(20), max_tokens=5))
                nursery.start_soon(sim.client, ask("b", prompt(30, start=50), max_tokens=7))
            elapsed = trio.current_time() - began
    for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time", "request_prefill_time"):
        assert watched[f"{name}_seconds_count"] == 2
    assert watched["inter_token_latency_seconds_count"] == 4 + 6
    assert (watched["prompt_tokens_total"], watched["generation_tokens_total"]) == (50, 12)
    assert (watched["request_prompt_tokens_sum"], watched["request_generation_tokens_sum"]) == (50, 12)
    assert watched.labelled("request_success_total") == {("length",): 2}
    parts = sum(watched[f"request_{part}_time_seconds_sum"] for part in ("queue", "prefill", "decode"))
    whole = watched["e2e_request_latency_seconds_sum"]
    assert parts <= whole <= 2 * elapsed
    assert watched["request_queue_time_seconds_sum"] > 0, "the second waited for the first"
    first = watched["time_to_first_token_seconds_sum"]
    assert first == watched["request_queue_time_seconds_sum"] + watched["request_prefill_time_seconds_sum"]


@simulated(seeds=5)
async def test_after_a_storm_of_cancels_the_counters_are_the_receipts() -> None:
    watched, happened = Counted(), Happened()
    async with open_simulation(slots=2, queue=40, speculate=Proposer.DRAFT) as sim:
        with sim.engine.observed_by(happened), watched.watching(sim.engine):
            await storm(sim)
    assert len({(receipt.reason, receipt.phase) for receipt in happened.receipts.values()}) > 2
    assert len(happened.over) == 24
    watched.check(happened)


@simulated()
async def test_refusals_and_failures_are_counted_by_their_code() -> None:
    watched = Counted()
    faults = Chaos(FaultPlan((DeviceError(step=1), DeviceError(step=2))))
    async with open_simulation(slots=1, queue=1, chaos=faults) as sim:
        with watched.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                for name in ("a", "b", "c"):
                    nursery.start_soon(sim.client, ask(name, prompt(9, start=ord(name) - 90)))
    assert watched.labelled("requests_refused_total") == {("queue_full",): 1}
    ends = [story.last() for story in sim.stories.values()]
    failed = [end for end in ends if isinstance(end, Failed)]
    assert watched.labelled("request_failures_total") == {("step_failed",): len(failed)}
    assert len(failed) == 2
    assert watched.recorder.live == 0


@simulated()
async def test_gaps_are_between_steps_while_somebody_holds_a_slot() -> None:
    watched = Counted()
    async with open_simulation(slots=1) as sim:
        with watched.watching(sim.engine):
            await sim.client(ask("a", prompt(9), max_tokens=4))
            steps = watched.labelled("step_seconds_count")["target",]
            assert watched["step_gap_seconds_count"] == steps - 1
            await trio.sleep(1000)
            await sim.client(ask("b", prompt(9, start=70), max_tokens=4))
    assert watched["step_gap_seconds_count"] == watched.labelled("step_seconds_count")["target",] - 2
    assert watched["step_gap_seconds_sum"] < 1
    assert watched["step_tokens_sum"] == sim.manager.statistics().rows


class _Begun(Observer):
    """Sets an event at the first token of anybody's."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def emitted(self, event: Emitted) -> None:
        """Note it."""
        self.event.set()


@simulated()
async def test_who_came_before_the_recorder_is_counted_where_that_is_possible() -> None:
    watched, begun = Counted(), _Begun()
    async with open_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        with sim.engine.observed_by(begun):
            nursery.start_soon(sim.client, ask("early", prompt(9), max_tokens=30))
            await begun.event.wait()
        with watched.watching(sim.engine):
            await sim.client(ask("late", prompt(9, start=70), max_tokens=50))
            await sim.engine.wait_all_ended()
    assert watched["e2e_request_latency_seconds_count"] == 1
    assert watched.labelled("request_success_total") == {("length",): 2}
    assert watched.recorder.live == 0
