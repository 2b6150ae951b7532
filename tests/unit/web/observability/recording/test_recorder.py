"""The picture that a recorder makes of a simulated run: spans nest, none is open, cancels are where receipts say."""

from __future__ import annotations

import trio

from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, DeviceError, FaultPlan, ThreadDeath
from tests.fakes.simulation import ask, open_simulation, prompt, simulated, storm
from tests.sim.instruments.happened import Happened
from tests.sim.instruments.recording import Recorded


@simulated()
async def test_a_request_is_drawn_from_the_queue_to_the_free_slot() -> None:
    recorded = Recorded()
    async with open_simulation(slots=1, layers=2) as sim:
        with recorded.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sim.client, ask("a", prompt(11), max_tokens=3))
                nursery.start_soon(sim.client, ask("b", prompt(9, start=70), max_tokens=3))
        statistics = sim.engine.statistics().manager
    picture = recorded.picture()
    holds = picture.spans["slot 0"]
    assert {hold.name for hold in holds} == {"a/0", "b/0"} == set(picture.waits)
    first, second = holds
    assert first.end <= second.begin
    assert (picture.waits[first.name], picture.waits[second.name]) == (0, second.begin)
    steps = [span for span in picture.spans["steps"] if span.name.startswith("step ")]
    layers = [span for span in picture.spans["steps"] if span.name.startswith("layer ")]
    assert (len(steps), len(layers)) == (statistics.steps, 2 * statistics.steps)
    work = picture.spans["slot 0: work"]
    assert [(part.begin, part.end) for part in work] == [(step.begin, step.end) for step in steps]
    assert {part.name for part in work} == {"prefill", "decode"}
    for hold in holds:
        own = [part for part in work if f"{part.args['request_id']}/{part.args['index']}" == hold.name]
        assert own
        assert all(hold.begin <= part.begin and part.end <= hold.end for part in own)
        assert sum(part.args["rows"] for part in own) == hold.args["computed_tokens"]


@simulated()
async def test_drafts_are_drawn_and_verified() -> None:
    recorded = Recorded()
    async with open_simulation(slots=1, speculate=Proposer.DRAFT, draft_tokens=2) as sim:
        with recorded.watching(sim.engine):
            await sim.client(ask("a", prompt(9), max_tokens=8))
    picture = recorded.picture()
    assert {part.name for part in picture.spans["slot 0: work"]} == {"prefill", "draft", "verify", "decode"}
    assert {span.name.split()[0] for span in picture.spans["drafter's steps"]} == {"draft", "layer"}


@simulated(seeds=5)
async def test_in_a_storm_spans_nest_and_cancels_are_where_the_receipts_say() -> None:
    recorded, happened = Recorded(), Happened()
    async with open_simulation(slots=2, queue=40, speculate=Proposer.DRAFT) as sim:
        with sim.engine.observed_by(happened), recorded.watching(sim.engine):
            await storm(sim)
    assert len(happened.waited) == 24
    assert {"queued"} < {receipt.phase for receipt in happened.receipts.values()}
    recorded.check(happened)


@simulated()
async def test_steps_that_fail_and_a_device_that_is_lost_leave_nothing_open() -> None:
    recorded = Recorded()
    faults = Chaos(FaultPlan((DeviceError(step=2), ThreadDeath(step=5))))
    async with open_simulation(slots=1, queue=4, chaos=faults) as sim:
        with recorded.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                for name in ("a", "b"):
                    nursery.start_soon(sim.client, ask(name, prompt(20, start=ord(name) - 90), max_tokens=3))
    picture = recorded.picture()
    failed = [span for span in picture.spans["steps"] if "error" in span.args]
    assert len(failed) == 2
    assert [event["name"] for event in picture.instants["steps"]] == ["device lost", "device back"]


@simulated()
async def test_what_is_open_at_the_end_is_drawn_as_far_as_it_came() -> None:
    recorded = Recorded()
    async with open_simulation(slots=1) as sim, trio.open_nursery() as nursery:
        with recorded.watching(sim.engine):
            nursery.start_soon(sim.client, ask("a", prompt(200), max_tokens=9))
            nursery.start_soon(sim.client, ask("b", prompt(200, start=70), max_tokens=9))
            await trio.sleep(0.01)
        assert recorded.recorder.open >= 2
        recorded.recorder.close()
        picture = recorded.picture()
    (hold,) = picture.spans["slot 0"]
    assert hold.args["ended"] == "recording"
    assert len(picture.waits) == 2


@simulated()
async def test_nothing_of_the_text_is_recorded() -> None:
    recorded = Recorded()
    async with open_simulation(slots=1) as sim:
        with recorded.watching(sim.engine):
            await sim.client(ask("a", prompt(11), max_tokens=3))
    names = {name for event in recorded.events for name in event.get("args", {})}
    assert not {name for name in names if "text" in name or "token_ids" in name}
    assert not [
        value for event in recorded.events for value in event.get("args", {}).values() if isinstance(value, tuple)
    ]
