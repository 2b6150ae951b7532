"""End of a generation, from the client's side: tokens, end tokens, stop strings, the context; and slow readers."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from actors.core.generation import Finished, FinishReason, Token
from runtime.errors import RequestError
from runtime.sampling.params import SamplingParams
from runtime.text.stop_strings import StopAutomaton
from runtime.text.text_stream import TextStream
from runtime.text.tokenizer import Tokenizer
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.models.small_tokenizers import byte_level
from tests.scenarios.engine.together import STEP, same_time


def text_of(tokens: list[int]) -> str:
    stream = TextStream(Tokenizer(byte_level()))
    return "".join(stream.push(token).text for token in tokens) + stream.flush()


async def continuation(tokens: list[int], count: int) -> list[int]:
    async with open_simulation() as sim:
        return sim.model.continuation(tokens, count)


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
        assert story.finished().stop_string is None


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
        assert story.finished().stop_string == stop
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
