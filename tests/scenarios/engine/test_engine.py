"""Requests from the client's side: how they end, what they are told, and the engine's own end."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from actors.core.generation import Finished, FinishReason, RequestState, Token
from actors.core.receipts import CancelReason
from runtime.errors import CedeError, DeadlineExceeded, RequestError, ShuttingDown
from runtime.sampling.params import SamplingParams
from runtime.text.stop_strings import StopAutomaton
from runtime.text.text_stream import TextStream
from runtime.text.tokenizer import Tokenizer
from tests.fakes.simulation import AtStep, Simulation, Story, ask, open_simulation, prompt, run, simulated
from tests.models.small_tokenizers import byte_level

if TYPE_CHECKING:
    from actors.engine import Engine

STEP = 0.01


def same_time(_rows: int) -> float:
    return STEP


def text_of(tokens: list[int]) -> str:
    stream = TextStream(Tokenizer(byte_level()))
    return "".join(stream.push(token).text for token in tokens) + stream.flush()


async def continuation(tokens: list[int], count: int) -> list[int]:
    async with open_simulation() as sim:
        return sim.model.continuation(tokens, count)


# --- a run is fixed by one integer ------------------------------------------------------------------------------------


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

    with pytest.raises(Exception, match="would wait for ever"):
        run(scenario)


# --- how a generation ends --------------------------------------------------------------------------------------------


@simulated()
async def test_a_request_gets_its_tokens_and_its_figures() -> None:
    async with open_simulation(step_seconds=same_time) as sim:
        story = await sim.client(ask("a", prompt(20), max_tokens=6))
        assert story.tokens() == sim.model.continuation(prompt(20), 6)
        assert story.text() == text_of(story.tokens())
        finished = story.finished()
        assert finished.reason is FinishReason.LENGTH
        assert (finished.prompt_tokens, finished.cached_tokens, finished.completion_tokens) == (20, 0, 6)
        timings = finished.timings
        assert (timings.prompt_n, timings.cache_n, timings.predicted_n) == (20, 0, 6)
        assert timings.prompt_ms == pytest.approx(30)
        assert timings.predicted_ms == pytest.approx(50)


@simulated()
async def test_the_end_token_ends_it_and_is_no_text() -> None:
    end = (await continuation(prompt(10), 4))[3]
    async with open_simulation(end_ids=(end,)) as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=20))
        count = sim.model.continuation(prompt(10), 4).index(end) + 1
        assert story.finished().reason is FinishReason.STOP
        assert story.finished().completion_tokens == count
        assert story.text() == text_of(story.tokens()[:-1])


@simulated()
async def test_ignore_eos() -> None:
    end = (await continuation(prompt(10), 4))[3]
    async with open_simulation(end_ids=(end,)) as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=8, ignore_eos=True))
        assert story.finished().reason is FinishReason.LENGTH
        assert end in story.tokens()
        assert len(story.tokens()) == 8


@simulated()
async def test_min_tokens_keeps_the_end_token_back() -> None:
    first = (await continuation(prompt(10), 1))[0]
    sampling = SamplingParams(temperature=0.0, seed=0, min_tokens=3)
    async with open_simulation(end_ids=(first,)) as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=8, sampling=sampling))
        assert len(story.tokens()) >= 3
        assert first not in story.tokens()[:3]
        soon = await sim.client(ask("b", prompt(10), max_tokens=8))
        assert soon.tokens() == [first]


@simulated()
async def test_a_stop_string_ends_it_and_is_not_emitted() -> None:
    tokens = await continuation(prompt(10), 12)
    whole = text_of(tokens)
    stop = text_of(tokens[:8])[-3:]
    async with open_simulation() as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=30, stop=StopAutomaton([stop])))
        assert story.finished().reason is FinishReason.STOP
        assert story.text() == whole[: whole.index(stop)]
        assert story.finished().text == ""
        assert not story.receipts


@simulated(seeds=2)
async def test_nothing_is_built_of_stop_strings_in_the_event_loop() -> None:
    """However many choices there are: each has a state of its own in the one automaton that came with the request."""
    whole = text_of(await continuation(prompt(10), 12))
    stop, made = StopAutomaton([whole[-3:], "never"]), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopAutomaton, "__init__", lambda *args: made.append(args))
        async with open_simulation() as sim:
            story = await sim.client(ask("a", prompt(10), prompt(10), prompt(10), max_tokens=30, stop=stop))
            for index in range(3):
                assert story.finished(index).reason is FinishReason.STOP
                assert story.text(index) == whole[: whole.index(whole[-3:])]
    assert not made


@simulated()
@pytest.mark.parametrize(("min_tokens", "ends"), [(4, True), (5, False)])
async def test_a_stop_string_ends_nothing_before_min_tokens(min_tokens: int, ends: bool) -> None:
    tokens = await continuation(prompt(10), 12)
    whole = text_of(tokens)
    stop = text_of(tokens[:5])[-2:]  # begins in the fourth token
    assert whole.count(stop) == 1
    async with open_simulation() as sim:
        sampling = SamplingParams(temperature=0, min_tokens=min_tokens)
        story = await sim.client(ask("a", prompt(10), max_tokens=12, sampling=sampling, stop=StopAutomaton([stop])))
        assert story.finished().completion_tokens == (5 if ends else 12)
        assert story.text() == (whole[: whole.index(stop)] if ends else whole)


@simulated()
async def test_text_held_back_for_a_stop_string_comes_with_the_end() -> None:
    tokens = await continuation(prompt(10), 6)
    whole = text_of(tokens)
    async with open_simulation() as sim:
        story = await sim.client(ask("a", prompt(10), max_tokens=6, stop=StopAutomaton([whole[-1] + "never"])))
        assert story.text() == whole
        assert story.finished().reason is FinishReason.LENGTH


@simulated()
async def test_the_context_ends_it() -> None:
    async with open_simulation(context=32) as sim:
        story = await sim.client(ask("a", prompt(20), max_tokens=None))
        assert story.finished().reason is FinishReason.LENGTH
        assert story.finished().completion_tokens == 12
        more = await sim.client(ask("b", prompt(31), max_tokens=100))
        assert more.finished().completion_tokens == 1


@pytest.mark.parametrize(
    ("length", "code"), [(0, None), (32, "context_length_exceeded"), (500, "context_length_exceeded")]
)
@simulated(seeds=1)
async def test_a_prompt_that_has_no_room_is_refused(length: int, code: str | None) -> None:
    async with open_simulation(context=32) as sim:
        story = await sim.client(ask("a", [5] * length))
        assert isinstance(story.error, RequestError)
        assert (story.error.status, story.error.param, story.error.code) == (400, "prompt", code)


@simulated(seeds=1)
async def test_an_id_in_use_is_refused_and_its_owner_not_disturbed() -> None:
    async with open_simulation() as sim:
        async with sim.engine.open_request(ask("a", prompt(5))) as request:
            with pytest.raises(RequestError, match="in use"):
                async with sim.engine.open_request(ask("a", prompt(5))):
                    raise AssertionError("admitted twice")
            assert [type(event) for event in [e async for e in request]] == [Token] * 4 + [Finished]


@simulated(seeds=4)
async def test_generations_of_one_request_are_served_side_by_side() -> None:
    async with open_simulation(slots=2) as sim:
        story = await sim.client(ask("a", prompt(10), prompt(12, start=5), prompt(3, start=6), max_tokens=7))
        for index, tokens in enumerate(story.asked.prompts):
            assert story.tokens(index) == sim.model.continuation(tokens, 7)
            assert story.finished(index).prompt_tokens == len(tokens)


@simulated(seeds=3)
async def test_hanging_up_on_three_generations_leaves_three_receipts() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim:
        story = await sim.client(ask("a", *[prompt(30)] * 3), hang_up_at=0.035)
        assert sorted(receipt.index for receipt in story.receipts) == [0, 1, 2]
        assert sorted(receipt.phase for receipt in story.receipts) == ["prefill", "prefill", "queued"]


# --- readers ----------------------------------------------------------------------------------------------------------


@simulated(seeds=3)
async def test_a_client_that_never_reads_holds_no_slot() -> None:
    """C6."""
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        stalled = sim.expect(ask("stalled", prompt(5), max_tokens=20))
        nursery.start_soon(lambda: sim.client(stalled.asked, reads=False, hang_up_at=1000.0))
        await trio.sleep(0.001)
        following = await sim.client(ask("next", prompt(5, start=5)))
        assert trio.current_time() < 0.3
        assert following.finished().reason is FinishReason.LENGTH
        await trio.sleep_until(1001.0)
        assert len(stalled.tokens(all=True)) == 20
        assert not stalled.receipts


@simulated(seeds=3)
async def test_a_slow_reader_slows_nobody() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        slow = sim.expect(ask("slow", prompt(5), max_tokens=20))
        nursery.start_soon(lambda: sim.client(slow.asked, pause=10.0))
        quick = await sim.client(ask("quick", prompt(5, start=5), max_tokens=20))
        assert quick.times[-1] <= 22 * STEP
        await trio.sleep(5.0)
        assert sim.manager.statistics().leased == 0


# --- cancelled by others than the client ------------------------------------------------------------------------------


@simulated(seeds=3)
async def test_deadline_before_the_first_token_is_an_error() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        story = await sim.client(ask("a", prompt(100), timeout=0.055))
        error = story.failed()
        assert isinstance(error, DeadlineExceeded)
        assert error.status == 504
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "prefill")
        assert story.times == [pytest.approx(0.055, abs=STEP / 3)]


@simulated(seeds=3)
async def test_deadline_in_the_queue() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("active", prompt(5), max_tokens=20))
        await trio.sleep(0.001)
        story = await sim.client(ask("late", prompt(5, start=5), timeout=0.05))
        assert isinstance(story.failed(), DeadlineExceeded)
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "queued")


@simulated(seeds=3)
@pytest.mark.parametrize("slots", [1, 2])
async def test_timings_count_what_was_computed_before_a_cancel(slots: int) -> None:
    """Nothing in the queue; a part of the prompt in its middle."""
    async with (
        open_simulation(slots=slots, chunk_tokens=16, step_seconds=same_time) as sim,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(sim.client, ask("active", prompt(5), max_tokens=20))
        await trio.sleep(0.001)
        nursery.start_soon(sim.client, ask("late", prompt(100, start=5)))
        await trio.sleep(0.055)
        sim.engine.cancel("late")
        await sim.engine.wait_all_ended()
        timings, receipt = sim.stories["late"].finished().timings, sim.stories["late"].receipt
        assert timings.prompt_n == receipt.computed_tokens
        assert (timings.prompt_n > 0) == (slots == 2)


@simulated(seeds=3)
async def test_deadline_after_the_first_token_ends_the_output() -> None:
    async with open_simulation(slots=1, step_seconds=same_time, request_timeout=0.055) as sim:
        story = await sim.client(ask("a", prompt(5), max_tokens=50))
        finished = story.finished()
        assert finished.reason is FinishReason.CANCELLED
        assert finished.completion_tokens == len(story.tokens()) == 5
        assert story.receipt.reason is CancelReason.DEADLINE
        longer = await sim.client(ask("b", prompt(5), max_tokens=50, timeout=100.0))
        assert longer.finished().completion_tokens == 50, "the request's own timeout comes first"


@simulated(seeds=4)
async def test_an_operator_cancels_exactly_one() -> None:
    async with open_simulation(slots=3, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        for n in range(5):
            nursery.start_soon(sim.client, ask(f"r{n}", prompt(5, start=n + 3), max_tokens=12))
        await trio.sleep(0.066)
        assert sim.engine.cancel("r1")
        assert not sim.engine.cancel("nobody")
        await sim.engine.wait_all_ended()
        cancelled = sim.stories["r1"]
        await trio.testing.wait_all_tasks_blocked()
        assert cancelled.finished().reason is FinishReason.CANCELLED
        assert cancelled.receipt.reason is CancelReason.OPERATOR
        for n in (0, 2, 3, 4):
            assert len(sim.stories[f"r{n}"].tokens()) == 12
            assert not sim.stories[f"r{n}"].receipts


@simulated(seeds=3)
async def test_the_first_reason_counts() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        async with sim.engine.open_request(ask("a", prompt(50))) as request:
            await trio.sleep(0.02)
            request.cancel(CancelReason.STALLED_READER)
            request.cancel(CancelReason.OPERATOR)
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.STALLED_READER]


@simulated(seeds=3)
async def test_the_opener_can_say_what_a_cancel_from_outside_means() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        with trio.move_on_after(0.02):
            async with sim.engine.open_request(
                ask("a", prompt(50)), disconnect_reason=lambda: CancelReason.STALLED_READER
            ) as request:
                await trio.sleep_forever()
        assert request.id == "a"
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.STALLED_READER]


@simulated(seeds=3)
async def test_leaving_the_scope_early_is_a_hang_up() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        async with sim.engine.open_request(ask("a", prompt(5), max_tokens=50)) as request:
            await anext(aiter(request))
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.DISCONNECT]
        assert trio.current_time() < 3 * STEP


# --- bugs -------------------------------------------------------------------------------------------------------------


@simulated(seeds=4)
async def test_a_bug_in_an_actor_costs_its_generation_only() -> None:
    async with open_simulation(slots=3, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        sim.faults.text_raises_on.add(sim.model.continuation(prompt(5), 3)[2])
        story = sim.expect(ask("a", prompt(5), prompt(5, start=6), max_tokens=10))
        other = sim.expect(ask("b", prompt(5, start=7), max_tokens=10))
        nursery.start_soon(sim.client, other.asked)
        await sim.client(story.asked)
        assert type(story.failed(0)) is CedeError
        assert "planted" not in str(story.failed(0)), "the client is not told of our insides"
        assert story.finished(1).completion_tokens == 10
        assert [(receipt.index, receipt.reason) for receipt in story.receipts] == [(0, CancelReason.FAULT)]
    assert len(other.tokens()) == 10


@simulated(seeds=3)
async def test_a_bug_at_the_end_of_the_text() -> None:
    async with open_simulation(slots=1) as sim:
        sim.faults.flush_raises = True
        story = await sim.client(ask("a", prompt(5)))
        assert type(story.failed()) is CedeError
        sim.faults.flush_raises = False
        assert (await sim.client(ask("b", prompt(5)))).finished().reason is FinishReason.LENGTH


@simulated(seeds=3)
async def test_a_bug_while_a_cancel_is_told() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        sim.faults.flush_raises = True
        story = sim.expect(ask("a", prompt(5), prompt(5, start=5), max_tokens=50))
        nursery.start_soon(sim.client, story.asked)
        await trio.sleep(0.055)
        sim.engine.cancel("a")
        await sim.engine.wait_all_ended()
        await trio.testing.wait_all_tasks_blocked()
        assert type(story.failed(0)) is CedeError
        assert {receipt.reason for receipt in story.receipts} == {CancelReason.OPERATOR}


@simulated(seeds=2)
async def test_a_request_that_cannot_be_built_leaves_no_trace() -> None:
    """Whatever raises while it is being built, the slot must not be lost for that."""
    async with open_simulation(slots=1) as sim:
        sim.faults.text_cannot_be_made = True
        with pytest.raises(ZeroDivisionError, match="planted"):
            async with sim.engine.open_request(ask("a", prompt(5))):
                raise AssertionError("admitted")
        sim.faults.text_cannot_be_made = False
        assert (await sim.client(ask("b", prompt(5)))).finished().reason is FinishReason.LENGTH


@simulated(seeds=3)
async def test_a_bug_in_the_slot_manager_ends_the_engine_and_everybody_with_it() -> None:
    """No clean end is possible then, but nobody may be left waiting."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a planted bug")

    async def scenario() -> None:
        async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(sim.client, ask(f"r{n}", prompt(5, start=n + 3), max_tokens=50))
            await trio.sleep(0.055)
            sim.manager.table.commit = broken  # type: ignore[method-assign, assignment]
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await scenario()
    assert caught.group_contains(ZeroDivisionError)


# --- looking in -------------------------------------------------------------------------------------------------------


@simulated(seeds=2)
async def test_live_requests_can_be_looked_at() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        for n in range(2):
            asked = ask(f"r{n}", prompt(20, start=n + 3))
            nursery.start_soon(functools.partial(sim.client, asked, arrives=n / 1000))
        await trio.sleep(0.015)
        first, second = sim.engine.requests()
        assert (first.id, first.states, first.slots) == ("r0", (RequestState.PREFILL,), (0,))
        assert (second.id, second.states, second.slots) == ("r1", (RequestState.QUEUED,), (None,))
        assert (first.prompt_tokens, first.completion_tokens) == (20, 0)
        await trio.sleep(0.03)
        assert sim.engine.requests()[0].states == (RequestState.DECODE,)
        assert sim.engine.requests()[0].completion_tokens == 2
        assert sim.engine.statistics().live_requests == 2
        assert sim.engine.statistics().manager.queued == 1
        assert [slot.request_id for slot in sim.engine.slots()] == ["r0"]
        await sim.engine.wait_all_ended()
        assert sim.engine.statistics().manager.cancels[CancelReason.DISCONNECT] == 0


# --- shutdown ---------------------------------------------------------------------------------------------------------


async def busy(sim: Simulation, nursery: trio.Nursery, count: int = 4, max_tokens: int = 20) -> list[Story]:
    stories = [sim.expect(ask(f"r{n}", prompt(5, start=n + 3), max_tokens=max_tokens)) for n in range(count)]
    for n, story in enumerate(stories):
        nursery.start_soon(functools.partial(sim.client, story.asked, arrives=n / 1000))
    await trio.sleep(0.055)
    return stories


@simulated(seeds=3)
async def test_drain_lets_the_living_finish_and_nobody_in() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        stories = await busy(sim, nursery)
        nursery.start_soon(sim.engine.drain, 100.0)
        await trio.testing.wait_all_tasks_blocked()
        late = await sim.client(ask("late", prompt(5)))
        assert isinstance(late.error, ShuttingDown)
        assert sim.engine.health() == "shutting down"
    assert all(len(story.tokens()) == 20 for story in stories)
    assert trio.current_time() < 1.0, "drain waited longer than it had to"


@simulated(seeds=3)
async def test_drain_cancels_those_who_take_too_long() -> None:
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        stories = await busy(sim, nursery)
        await sim.engine.drain(0.05)
        await sim.engine.wait_all_ended()
        assert trio.current_time() < 0.055 + 0.05 + 2 * STEP
        await trio.testing.wait_all_tasks_blocked()
        for active in stories[:2]:
            assert active.finished().reason is FinishReason.CANCELLED
            assert active.receipt.phase == "decode"
        for queued in stories[2:]:
            assert isinstance(queued.failed(), ShuttingDown)
            assert queued.receipt.phase == "queued"
        assert {story.receipt.reason for story in stories} == {CancelReason.SHUTDOWN}


@simulated(seeds=2)
async def test_who_waits_for_the_end_of_all_waits_for_those_who_come_meanwhile() -> None:
    async with open_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", prompt(5), max_tokens=5))
        await trio.sleep(0.001)
        second = sim.expect(ask("second", prompt(5, start=4), max_tokens=50))
        nursery.start_soon(functools.partial(sim.client, second.asked, arrives=0.005))
        with trio.fail_after(100):
            await sim.engine.wait_all_ended()
        assert second.ended


@simulated(seeds=2)
async def test_drain_of_an_idle_engine_returns_at_once() -> None:
    async with open_simulation() as sim:
        await sim.engine.drain(100.0)
        assert trio.current_time() == 0.0


def cancelled_from_outside(n: int | None, seed: int) -> int:
    """The whole cancelled before the n-th step of any task, in the middle of everything; how many steps there are."""
    everything = trio.CancelScope()
    open_now: list[Engine] = []
    instrument = AtStep(n, everything.cancel)

    async def scenario() -> None:
        with everything:
            async with open_simulation(slots=1, layers=2) as sim, trio.open_nursery() as nursery:
                open_now.append(sim.engine)
                for i in range(3):
                    nursery.start_soon(sim.client, ask(f"r{i}", prompt(12, start=i + 3), max_tokens=2))

    run(scenario, seed=seed, instruments=[instrument])
    for engine in open_now:
        engine.check_integrity()
        assert all(slot.request_id is None for slot in engine.slots())
        assert engine.requests() == []
    return instrument.steps


@pytest.mark.parametrize("seed", range(2))
def test_an_engine_cancelled_from_outside_at_any_time_ends(seed: int) -> None:
    for n in range(cancelled_from_outside(None, seed)):
        cancelled_from_outside(n, seed)
