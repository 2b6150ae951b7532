"""What keys may take: never more than their limits, and nothing is kept by who has gone."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from actors.core.events import Committed, Invalidated, Queued, Released
from runtime.errors import RateLimited
from tests.fakes.engine import FakeEngine, as_engine, posting, say, token
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.unit.web.apps import CHAT, HI, error_in
from web.access.api_keys import ApiKey, KeyLimits, KeyRing, digest_of
from web.access.usage import KeyUsage, TokenMeter
from web.app import APIS, create_app
from web.options import StateOptions
from web.responses.stored.state import open_state


def key_of(**limits: Any) -> ApiKey:  # noqa: ANN401
    return ApiKey(digest_of(b"sk-1"), "alice", limits=KeyLimits(**limits))


class Clock:
    """Stands still unless a test moves it."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


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
    with usage.admit(key), usage.admit(other), pytest.raises(RateLimited, match="alice may have 1 requests"):
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
                usage.charge("alice", tokens)
                charged += tokens
        except RateLimited as refused:
            clock.now += (refused.retry_after or 0.0) + 1e-9
            with usage.admit(key):
                pass


def test_a_bucket_holds_no_more_than_a_minutes_worth() -> None:
    clock = Clock()
    usage, key = KeyUsage(clock), key_of(tokens_per_minute=60)
    with usage.admit(key):
        usage.charge("alice", 150)
    told = usage.headers(key)
    assert told["x-ratelimit-limit-tokens"] == "60"
    assert told["x-ratelimit-remaining-tokens"] == "0"
    assert told["x-ratelimit-reset-tokens"] == "150.000s"
    with pytest.raises(RateLimited, match="used up its 60 tokens per minute") as refused:
        usage.admit(key).__enter__()
    assert refused.value.retry_after == pytest.approx(91)
    clock.now = 1000.0
    assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "60"


def test_a_key_without_limits_is_told_none() -> None:
    usage, key = KeyUsage(Clock()), key_of()
    with usage.admit(key):
        usage.charge("alice", 10**9)
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
                computed = length - story.finished().cached_tokens + 5 - 1
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
        meter.queued(Queued("a", 0, 40, "alice"))
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


# --- over HTTP --------------------------------------------------------------------------------------------------------

BEARER = {"authorization": "Bearer sk-1"}


async def test_the_refusal_comes_before_the_body_and_a_place_is_free_when_the_client_has_gone() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1, queue_share=0.5)]))
    async with posting(app, CHAT, HI, headers=BEARER) as first:
        assert (await engine.next_request()).asked.queue_share == 0.5
        refused = await app.test_client().post(CHAT, json=HI | {"max_tokens": -7}, headers=BEARER)
        assert (await error_in(refused, 429))["code"] == "rate_limit_exceeded"
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        listed = await app.test_client().get("/v1/requests", headers=BEARER)
        assert listed.status_code == 200, "looking takes no place"
        first.disconnect()
    for wrong in (HI | {"max_tokens": -7}, {}):
        assert (await app.test_client().post(CHAT, json=wrong, headers=BEARER)).status_code == 400
    engine.refusal = RateLimited("no")
    assert (await app.test_client().post(CHAT, json=HI, headers=BEARER)).status_code == 429
    engine.refusal = None
    async with posting(app, CHAT, HI, headers=BEARER) as last:
        await engine.next_request()
        last.disconnect()


@pytest.mark.parametrize("path", [o.path for api in APIS for o in api.operations if o.body is not None])
async def test_each_route_with_a_body_takes_a_place(path: str) -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1)]))
    async with posting(app, CHAT, HI, headers=BEARER) as first:
        await engine.next_request()
        assert (await app.test_client().post(path, json={}, headers=BEARER)).status_code == 429
        first.disconnect()
    assert (await app.test_client().post(path, json={"messages": 7}, headers=BEARER)).status_code != 429


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, HI),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", HI | {"model": "any", "max_tokens": 3}),
        ("/api/chat", HI),
        ("/api/generate", {"prompt": "hi"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_api_asks_for_its_key_and_within_its_share(path: str, body: dict[str, Any], stream: bool) -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(queue_share=0.5)]))
    async with posting(app, path, body | {"stream": stream}, headers=BEARER) as client:
        asked = (await engine.next_request()).asked
        assert (asked.owner, asked.queue_share) == ("alice", 0.5)
        client.disconnect()


async def test_the_headers_are_openais_and_come_with_each_answer() -> None:
    keys = KeyRing([key_of(requests=3, tokens_per_minute=600)])
    app = create_app(as_engine(FakeEngine(say("a"))), keys=keys, usage=KeyUsage(Clock()))
    response = await app.test_client().post(CHAT, json=HI, headers=BEARER)
    told = {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit-")}
    assert told == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "600",
        "x-ratelimit-reset-tokens": "0.000s",
    }


async def test_a_response_in_the_background_keeps_its_place_until_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    engine = FakeEngine([token("a")])
    async with open_state(as_engine(engine), StateOptions()) as state:
        app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1, queue_share=0.5)]), state=state)
        client, body = app.test_client(), {"input": "hi", "background": True}
        begun = await client.post("/v1/responses", json=body, headers=BEARER)
        assert (begun.status_code, (await engine.next_request()).asked.queue_share) == (200, 0.5)
        assert (await client.post("/v1/responses", json=body, headers=BEARER)).status_code == 429
        path = f"/v1/responses/{(await begun.get_json())['id']}/cancel"
        assert (await client.post(path, headers=BEARER)).status_code == 200
        assert (await client.post("/v1/responses", json=body, headers=BEARER)).status_code == 200
