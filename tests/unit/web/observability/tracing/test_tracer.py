"""The spans that a tracer makes of what the engine does, in virtual time: whatever happens, none is left open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import trio
from opentelemetry.trace import SpanKind, StatusCode

from actors.core.generation import TraceContext
from actors.generating.attended import attended
from runtime.errors import CedeError
from runtime.loading.served import Proposer
from runtime.testing.faults import Chaos, DeviceError, FaultPlan, ThreadDeath
from tests.fakes.simulation import ask, open_simulation, prompt, simulated, storm
from tests.sim.instruments.happened import Happened
from tests.sim.instruments.spans import Traced, about, began, identity, over

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@simulated()
async def test_a_request_has_a_span_and_one_for_each_phase() -> None:
    traced = Traced()
    async with open_simulation(slots=1) as sim:
        with traced.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sim.client, ask("a", prompt(20), max_tokens=5))
                nursery.start_soon(sim.client, ask("b", prompt(30, start=50), max_tokens=7))
    traced.check()
    for name, tokens in (("a", (20, 5)), ("b", (30, 7))):
        span = traced.requests()[name]
        assert (span.name, span.kind, span.parent) == ("chat a-model", SpanKind.SERVER, None)
        assert span.status.status_code is StatusCode.UNSET
        usage = about(span)["gen_ai.usage.input_tokens"], about(span)["gen_ai.usage.output_tokens"]
        assert usage == tokens
        assert about(span)["gen_ai.request.model"] == "a-model"
        assert about(span)["gen_ai.request.temperature"] == 0
        assert about(span)["gen_ai.response.finish_reasons"] == ("length",)
        queued, prefill, decode = traced.children(span)
        assert [queued.name, prefill.name, decode.name] == ["queued", "prefill", "decode"]
        assert (over(queued), over(prefill)) == (began(prefill), began(decode))
        assert about(decode)["gen_ai.usage.output_tokens"] == tokens[1]
        assert about(prefill)["cede.slot"] == 0
    waited = [over(span) - began(span) for span in traced.spans if span.name == "queued"]
    assert sorted(map(bool, waited)) == [False, True]


@simulated()
async def test_the_clients_trace_is_the_parent_and_what_is_none_is_ignored() -> None:
    traced = Traced()
    async with open_simulation(slots=1) as sim:
        with traced.watching(sim.engine):
            for name, trace in (
                ("a", TraceContext(PARENT, "vendor=1")),
                ("b", TraceContext("00-nonsense")),
                ("c", TraceContext(PARENT.removesuffix("01") + "00")),  # whose client does not sample it
            ):
                await sim.client(replace(ask(name, prompt(9, start=ord(name)), max_tokens=2), trace=trace))
    spans = traced.requests()
    assert set(spans) == {"a", "b"}
    assert spans["a"].parent is not None
    assert f"{spans['a'].parent.span_id:016x}" == "b7ad6b7169203331"
    assert f"{identity(spans['a']).trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert identity(spans["a"]).trace_state.get("vendor") == "1"
    assert spans["b"].parent is None
    for span in spans.values():
        assert {identity(child).trace_id for child in traced.children(span)} == {identity(span).trace_id}


@simulated()
async def test_drafts_are_figures_of_the_decode_span() -> None:
    traced = Traced()
    async with open_simulation(slots=1, speculate=Proposer.DRAFT, draft_tokens=2) as sim:
        with traced.watching(sim.engine):
            await sim.client(ask("a", prompt(9), max_tokens=8))
        speculation = sim.engine.statistics().speculation
    traced.check()
    *_, decode = traced.children(traced.requests()["a"])
    assert about(decode)["cede.draft.tokens"] == speculation.drafted_tokens > 0
    assert about(decode)["cede.draft.accepted_tokens"] == speculation.accepted_tokens


@simulated(seeds=5)
async def test_after_a_storm_of_cancels_each_span_says_what_the_receipt_says() -> None:
    traced, happened = Traced(), Happened()
    async with open_simulation(slots=2, queue=40, speculate=Proposer.DRAFT) as sim:
        with sim.engine.observed_by(happened), traced.watching(sim.engine):
            await storm(sim)
    traced.check_against(happened)
    receipts = {receipt.request_id: receipt for receipt in happened.receipts.values()}
    assert len({(receipt.reason, receipt.phase) for receipt in receipts.values()}) > 2
    for name, span in traced.requests().items():
        receipt = receipts.get(name)
        if receipt is None:
            assert span.status.status_code is StatusCode.UNSET
            continue
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == f"cancelled: {receipt.reason} in {receipt.phase}"
        *_, last = traced.children(span)
        for one in (span, last):
            assert about(one)["cede.cancel.reason"] == about(one)["error.type"] == receipt.reason.value
            assert [event.timestamp for event in one.events] == [round(receipt.detected_at * 1e9)]
        began = "decode" if about(span)["gen_ai.usage.output_tokens"] else "prefill"
        assert last.name == ("queued" if receipt.phase == "queued" else began)


@simulated()
async def test_a_refusal_and_a_failure_are_on_the_span() -> None:
    traced = Traced()
    faults = Chaos(FaultPlan((DeviceError(step=1), DeviceError(step=2))))
    async with open_simulation(slots=1, queue=1, chaos=faults) as sim:
        with traced.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                for name in ("a", "b", "c"):
                    nursery.start_soon(sim.client, ask(name, prompt(9, start=ord(name) - 90)))
    traced.check()
    said = Counter(span.status.description for span in traced.requests().values())
    assert said == {"refused: queue_full": 1, "failed: step_failed": 2}


@simulated()
async def test_a_lost_device_leaves_no_span_open() -> None:
    traced = Traced()
    async with open_simulation(slots=1, queue=4, chaos=Chaos(FaultPlan((ThreadDeath(step=3),)))) as sim:
        with traced.watching(sim.engine):
            async with trio.open_nursery() as nursery:
                for name in ("a", "b"):
                    nursery.start_soon(sim.client, ask(name, prompt(20, start=ord(name) - 90), max_tokens=3))
    traced.check()
    said = [span.status.description for span in traced.requests().values()]
    assert sorted(map(str, said)) == ["None", "failed: device_lost"]


@simulated()
async def test_a_request_that_is_cancelled_before_it_is_queued_has_a_span() -> None:
    traced = Traced()
    async with open_simulation(slots=1) as sim:
        with traced.watching(sim.engine), attended(ask("a", prompt(40)), sim.manager.observers):
            pass  # as when its grammar was being compiled
    traced.check()
    assert traced.requests()["a"].status.description == "cancelled: before it was queued"


@simulated()
async def test_a_second_request_of_the_same_name_changes_nothing_of_the_first() -> None:
    traced = Traced()
    async with open_simulation(slots=1) as sim:
        with traced.watching(sim.engine):
            async with sim.engine.open_request(ask("a", prompt(9), max_tokens=3)) as request:
                with pytest.raises(CedeError):
                    async with sim.engine.open_request(ask("a", prompt(8), max_tokens=3)):
                        pass
                async for _ in request:
                    pass
    traced.check()
    assert len(traced.requests()) == 1
    assert about(traced.requests()["a"])["gen_ai.response.finish_reasons"] == ("length",)


@simulated()
async def test_what_is_open_at_the_end_is_ended() -> None:
    """Which cannot be, for every request ends first; unless a bug ended the tracer's listening."""
    traced = Traced()
    async with open_simulation(slots=1) as sim, trio.open_nursery() as nursery:
        with traced.watching(sim.engine):
            nursery.start_soon(partial(sim.client, ask("a", prompt(200), max_tokens=30)))
            await trio.sleep(0.01)
        assert traced.tracer.live == 1
        traced.tracer.close()
        traced.check()
