"""The benchmark's client: what it sees of a response, and how it leaves."""

from __future__ import annotations

import httpx
import pytest
import trio
from trio.testing import MockClock

from bench.client.harness.client import Client, hang_up
from bench.client.harness.dialect import Dialect, RequestSpec
from bench.client.harness.trace import RequestFailed, Trace
from tests.fakes.bench import Behaviour, client_of, open_server

ASK = RequestSpec((1, 2, 3), max_tokens=4)


async def test_every_token_has_the_time_at_which_it_came(autojump_clock: MockClock) -> None:
    async with open_server(Behaviour(prefill_seconds=0.1, decode_seconds=0.01)) as server:
        trace = await client_of(server).send(ASK)
    assert trace.ttft == pytest.approx(0.31)
    assert trace.gaps() == pytest.approx([0.01] * 3)
    assert trace.decode_rate == pytest.approx(100)
    assert (trace.tokens, trace.prompt_tokens, trace.cached_tokens) == (4, 3, 0)
    assert trace.text == "0 1 2 3 "
    assert trace.request_id == "job-0"


async def test_gaps_of_a_time_are_those_that_overlap_it(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        trace = await client_of(server).send(ASK)
    times = [at for at, _ in trace.arrivals]
    assert len(trace.gaps(since=times[1] + 0.001)) == 2
    assert len(trace.gaps(until=times[1] + 0.001)) == 2
    assert trace.gaps(until=times[0]) == []


async def test_tokens_of_one_step_are_one_arrival(autojump_clock: MockClock) -> None:
    async with open_server(Behaviour(together=2)) as server:
        trace = await client_of(server).send(ASK)
    assert [count for _, count in trace.arrivals] == [2, 2]
    assert trace.decode_rate == pytest.approx(200)


@pytest.mark.parametrize("usage", [True, False])
async def test_events_are_counted_where_the_server_does_not(autojump_clock: MockClock, usage: bool) -> None:
    async with open_server(Behaviour(ids=False, usage=usage)) as server:
        trace = await client_of(server).send(ASK)
    assert trace.tokens == 4
    assert trace.prompt_tokens == (3 if usage else None)
    assert trace.cached_tokens == (0 if usage else None)


async def test_tokens_without_text_are_known_by_the_usage(autojump_clock: MockClock) -> None:
    async with open_server(Behaviour(ids=False, mute=True)) as server:
        trace = await client_of(server).send(ASK)
    assert trace.tokens == 4
    assert trace.ttft == pytest.approx(0.013)


async def test_a_response_that_is_not_streamed_comes_at_once(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        trace = await client_of(server).send(RequestSpec((1, 2, 3), max_tokens=4, stream=False))
    assert [count for _, count in trace.arrivals] == [4]
    with pytest.raises(RequestFailed, match="no rate"):
        _ = trace.decode_rate


@pytest.mark.parametrize("stream", [True, False])
async def test_hanging_up_is_noticed_at_once(autojump_clock: MockClock, stream: bool) -> None:
    async with open_server(Behaviour(prefill_seconds=1, chunk=1)) as server:
        client = client_of(server)
        began = trio.current_time()
        trace = await hang_up(client, RequestSpec(tuple(range(10)), 4, stream=stream), after=2.5)
        assert trio.current_time() - began == pytest.approx(2.5)
        await trio.sleep(20)
        receipt = await client.receipt(trace)
    assert server.busy_seconds == pytest.approx(3)
    assert receipt is not None
    assert receipt["computed_tokens"] == 3  # what had begun was done
    assert (trace.ended, trace.tokens) == (None, 0)


async def test_hanging_up_at_a_token(autojump_clock: MockClock) -> None:
    async with open_server() as server:
        trace = await hang_up(client_of(server), RequestSpec((1,), max_tokens=100), tokens=3)
        assert trace.tokens == 3
        assert trace.ended is None
        await trio.sleep(1)
    assert server.busy_seconds < 0.1


async def test_a_server_without_receipts(autojump_clock: MockClock) -> None:
    async with open_server(Behaviour(receipts=False)) as server:
        assert await client_of(server).receipt(Trace()) is None


async def test_tokens_can_be_waited_for(autojump_clock: MockClock) -> None:
    trace = Trace()
    async with open_server() as server, trio.open_nursery() as nursery:
        nursery.start_soon(client_of(server).send, ASK, trace)
        assert await trace.wait_tokens(2)
        assert trace.tokens == 2
        assert not await trace.wait_tokens(5)  # it ends before that


async def test_errors_say_what_the_server_said(autojump_clock: MockClock) -> None:
    async with open_server(Behaviour(fails=429)) as server:
        with pytest.raises(RequestFailed, match=r"HTTP 429.*as the test wants"):
            await client_of(server).send(ASK)
    async with open_server(Behaviour(breaks_after=2)) as server:
        trace = Trace()
        with pytest.raises(RequestFailed, match="broke off"):
            await client_of(server).send(ASK, trace)
        assert (trace.tokens, trace.ended) == (2, None)


@pytest.mark.parametrize(
    ("said", "stream", "complaint"),
    [
        (b'data: {"choices": [{"text": "a"}]}\n\n', True, "ended before the response did"),
        (b"data: [1]\n\ndata: [DONE]\n\n", True, "is not an object"),
        (b"data: {\n\ndata: [DONE]\n\n", True, "is not an object"),
        (b"[1]", False, "is not an object"),
        (b'{"choices": []}', False, "no response"),
    ],
)
async def test_what_is_not_a_response_is_a_failure(said: bytes, stream: bool, complaint: str) -> None:
    client = Client(
        "http://fake", Dialect(), transport=httpx.MockTransport(lambda _: httpx.Response(200, content=said))
    )
    with pytest.raises(RequestFailed, match=complaint):
        await client.send(RequestSpec((1, 2, 3), max_tokens=4, stream=stream))
    await client.aclose()


async def test_a_response_is_whole_with_its_finish_reason_alone() -> None:
    said = b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\n\n'
    client = Client(
        "http://fake", Dialect(), transport=httpx.MockTransport(lambda _: httpx.Response(200, content=said))
    )
    assert (await client.send(ASK)).text == "a"
    await client.aclose()


async def test_a_chat_is_asked_its_way(autojump_clock: MockClock) -> None:
    dialect = Dialect(model="m", endpoint="chat", token_ids=None, fields={"top_k": 1})
    async with open_server() as server:
        await client_of(server, dialect).send(RequestSpec("hello there", 2, fields={"speculate": False}))
    (body,) = server.bodies
    assert body == {
        "model": "m",
        "max_tokens": 2,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello there"}],
        "top_k": 1,
        "speculate": False,
    }
