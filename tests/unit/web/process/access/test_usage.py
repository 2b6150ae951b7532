"""Usage of keys: never more than their limits, and nothing is kept by who has gone."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from actors.core.events import Committed, Invalidated, Queued, Released
from actors.core.generation import GenerationRequest
from runtime.errors import RateLimited
from runtime.sampling.params import SamplingParams
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.unit.web.process.access.keys import Clock, key_of
from web.process.access.api_keys import ApiKey, KeyLimits, digest_of
from web.process.access.usage import UNSAID_ANSWER, KeyUsage, TokenMeter, most_tokens

# --- requests at a time -----------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.lists(st.integers(0, 9), max_size=40))
def test_there_are_never_more_requests_than_the_key_may_have_and_no_place_is_lost(most: int, moves: list[int]) -> None:
    usage, key = KeyUsage(Clock()), key_of(requests=most)
    live: list[ExitStack] = []
    for move in moves:
        if move < 6:
            with ExitStack() as stack:
                try:
                    stack.enter_context(usage.admit(key))
                except RateLimited:
                    assert len(live) == most
                else:
                    live.append(stack.pop_all())
        elif live:
            live.pop(move % len(live)).close()
        assert len(live) <= most
        assert usage.headers(key)["x-ratelimit-remaining-requests"] == str(most - len(live))
    for stack in live:
        stack.close()
    assert usage.headers(key)["x-ratelimit-remaining-requests"] == str(most)


def test_each_key_has_places_of_its_own() -> None:
    usage, key = KeyUsage(Clock()), key_of(requests=1)
    other = ApiKey(digest_of(b"sk-2"), "bob", limits=KeyLimits(requests=1))
    with usage.admit(key), usage.admit(other), pytest.raises(RateLimited, match="alice may have 1 request at a time"):
        usage.admit(key).__enter__()


def test_a_limit_that_was_changed_holds_from_then_on() -> None:
    usage = KeyUsage(Clock())
    with usage.admit(key_of(requests=1)), usage.admit(key_of(requests=2)), pytest.raises(RateLimited):
        usage.admit(key_of(requests=2)).__enter__()


# --- tokens a minute --------------------------------------------------------------------------------------------------

MOVES = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 300)), max_size=30)


@given(st.integers(1, 200), MOVES)
def test_nobody_is_let_in_beyond_what_the_time_has_filled_in(most: int, moves: list[tuple[float, int]]) -> None:
    clock = Clock()
    usage, key = KeyUsage(clock), key_of(tokens_per_minute=most)
    charged = 0
    for passed, tokens in moves:
        clock.now += passed
        try:
            with usage.admit(key):
                assert charged < most + clock.now * most / 60 + 1e-6
                usage.charge("alice", "r", tokens)
                charged += tokens
        except RateLimited as refused:
            clock.now += (refused.retry_after or 0.0) + 1e-9
            with usage.admit(key):
                pass


def test_a_bucket_holds_no_more_than_a_minutes_worth() -> None:
    clock = Clock()
    usage, key = KeyUsage(clock), key_of(tokens_per_minute=60)
    with usage.admit(key):
        usage.charge("alice", "r", 150)
    told = usage.headers(key)
    assert told["x-ratelimit-limit-tokens"] == "60"
    assert told["x-ratelimit-remaining-tokens"] == "0"
    assert told["x-ratelimit-reset-tokens"] == "150.000s"
    with pytest.raises(RateLimited, match="used up its 60 tokens per minute") as refused:
        usage.admit(key).__enter__()
    assert refused.value.retry_after == pytest.approx(91)
    clock.now = 1000.0
    assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "60"


def reserving(usage: KeyUsage, key: ApiKey, name: str, tokens: int) -> ExitStack:
    """A request that has reserved so many tokens, until the stack is closed."""
    with ExitStack() as stack:
        stack.enter_context(usage.reserve(key, name, tokens))
        return stack.pop_all()


@given(st.integers(1, 100), st.lists(st.tuples(st.floats(0, 20), st.integers(1, 100), st.floats(0, 1)), max_size=30))
def test_requests_that_say_how_much_they_take_never_overdraw(most: int, asked: list[tuple[float, int, float]]) -> None:
    """Neither together, however many run at a time, nor over any time."""
    clock = Clock()
    usage, key = KeyUsage(clock), key_of(tokens_per_minute=most)
    live: list[tuple[ExitStack, str, int]] = []
    charged = 0
    for number, (passed, tokens, share) in enumerate(asked):
        clock.now += passed
        with suppress(RateLimited):
            live.append((reserving(usage, key, f"r{number}", min(tokens, most)), f"r{number}", min(tokens, most)))
        if share < 0.5 and live:  # the oldest has computed a part of it, or all, and ends
            stack, name, reserved = live.pop(0)
            used = round(2 * share * reserved)
            usage.charge("alice", name, used)
            charged += used
            stack.close()
        remaining = int(usage.headers(key)["x-ratelimit-remaining-tokens"])
        assert charged + sum(reserved for *_, reserved in live) + remaining <= most + clock.now * most / 60 + 1e-6
    for stack, name, reserved in live:
        usage.charge("alice", name, reserved)
        charged += reserved
        stack.close()
    assert charged <= most + clock.now * most / 60 + 1e-6


def test_what_a_request_did_not_use_is_given_back_when_it_ends() -> None:
    usage, key = KeyUsage(Clock()), key_of(tokens_per_minute=100)
    with usage.reserve(key, "a", 60):
        usage.charge("alice", "a", 20)
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "40", "20 are taken, and 40 set aside"
        with pytest.raises(RateLimited, match="has 40 of its 100 tokens per minute left, and this request may take 41"):
            usage.reserve(key, "b", 41).__enter__()
        with usage.reserve(key, "b", 40), pytest.raises(RateLimited, match="used up") as refused:
            usage.admit(key).__enter__()
        assert refused.value.retry_after == 1, "soon, because a request may end"
    assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "80"


def test_a_request_that_is_larger_than_the_limit_is_let_in_when_nothing_is_taken() -> None:
    clock = Clock()
    usage, key = KeyUsage(clock), key_of(tokens_per_minute=60)
    with usage.reserve(key, "a", 1000):
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "0"
        usage.charge("alice", "a", 90)
    with pytest.raises(RateLimited) as refused:
        usage.reserve(key, "b", 1000).__enter__()
    assert refused.value.retry_after == 90
    clock.now = 90.0
    with usage.reserve(key, "b", 1000):
        pass


def test_what_a_request_may_take_is_its_prompts_and_answers() -> None:
    def most(*prompts: int, max_tokens: int | None, context: int = 100) -> int:
        asked = GenerationRequest("r", tuple((n,) * n for n in prompts), SamplingParams(), max_tokens)
        return most_tokens(asked, context)

    assert most(10, max_tokens=5) == 15
    assert most(10, max_tokens=0) == 10
    assert most(10, 10, 2, max_tokens=5) == 10 + 2 + 3 * 5, "choices of one prompt share it"
    assert most(10, max_tokens=5000) == most(10, max_tokens=None) == 100
    assert most(10, max_tokens=None, context=10**6) == 10 + UNSAID_ANSWER


def test_a_key_without_limits_is_told_none() -> None:
    usage, key = KeyUsage(Clock()), key_of()
    with usage.admit(key):
        usage.charge("alice", "r", 10**9)
        assert usage.headers(key) == {}
    with usage.admit(key):
        pass


# --- what is charged --------------------------------------------------------------------------------------------------


@simulated(seeds=3)
async def test_what_was_computed_is_charged_and_what_was_cached_is_not() -> None:
    key = key_of(tokens_per_minute=10_000)
    async with open_simulation(slots=1) as sim:
        usage = KeyUsage(Clock())
        with usage.admit(key), sim.engine.observed_by(TokenMeter(usage)):
            left = [10_000]
            for length in (100, 100):
                asked = ask(f"r{len(left)}", prompt(length), max_tokens=5, owner="alice")
                story = await sim.client(asked)
                left.append(int(usage.headers(key)["x-ratelimit-remaining-tokens"]))
                computed = length - story.finished().cached_tokens + 5
                assert left[-2] - left[-1] == computed
            assert left[1] - left[2] < 20, "the second prompt was in the slot"
            await sim.client(ask("others", prompt(50, start=9)))
            assert int(usage.headers(key)["x-ratelimit-remaining-tokens"]) == left[-1]


@simulated(seeds=3)
async def test_a_request_that_is_cancelled_is_charged_for_what_is_kept() -> None:
    key = key_of(tokens_per_minute=10_000)
    async with open_simulation(slots=1) as sim:
        usage = KeyUsage(Clock())
        with usage.admit(key), sim.engine.observed_by(TokenMeter(usage)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sim.client, ask("a", prompt(200), max_tokens=5, owner="alice"))
                await trio.sleep(0.1)
                sim.engine.cancel("a")
            receipt = sim.stories["a"].receipt
            assert 0 < receipt.kept_tokens < 200
            assert usage.headers(key)["x-ratelimit-remaining-tokens"] == str(10_000 - receipt.kept_tokens)


def test_what_a_failure_has_made_worthless_is_given_back() -> None:
    usage, key = KeyUsage(Clock()), key_of(tokens_per_minute=100)
    meter = TokenMeter(usage)
    with usage.admit(key):
        meter.queued(Queued("a", 0, 41, "alice"))
        meter.committed(Committed("a", 0, 0, False, 0, 40, 0, 0))
        meter.committed(Committed("a", 0, 0, True, 0, 40, 0, 0))
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "60"
        meter.invalidated(Invalidated("a", 0, 0))
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "100"
        meter.committed(Committed("a", 0, 0, False, 0, 40, 0, 0))
        meter.released(Released("a", 0, 0, None, 80, 40))
        meter.committed(Committed("a", 0, 0, False, 0, 40, 0, 0))
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "60"


# --- a share of the queue ---------------------------------------------------------------------------------------------


@simulated(seeds=3)
async def test_a_key_takes_no_more_than_its_share_of_the_queue() -> None:
    async with open_simulation(slots=1, queue=4) as sim, trio.open_nursery() as nursery:
        for number in range(3):
            asked = ask(f"a{number}", prompt(100, start=number + 3), owner="alice", queue_share=0.5)
            nursery.start_soon(sim.client, asked)
            await trio.sleep(0.001)
        refused = await sim.client(ask("a3", prompt(9, start=8), owner="alice", queue_share=0.5))
        assert isinstance(refused.error, RateLimited)
        assert refused.error.code == "rate_limit_exceeded"
        nursery.start_soon(sim.client, ask("b", prompt(9, start=9), owner="bob", queue_share=0.5))
        await sim.engine.wait_all_ended()
        assert {name for name, story in sim.stories.items() if story.error is not None} == {"a3"}
