"""Server-sent events over HTTP: keep-alives in virtual time, bounded writes, and ends of every kind."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.core.generation import Event, Failed
from actors.core.receipts import CancelReason
from actors.request import Request
from runtime.errors import QueueFull, StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import (
    Exchange,
    FakeEngine,
    FakeRequest,
    as_engine,
    completion,
    events_of,
    finished,
    posting,
    say,
    token,
)
from tests.unit.web.generation.openai_format.answers.streams import choices
from web.bodies.event_stream import MAX_EVENTS, EventStream
from web.generation.openai_format.answers.formatter import DONE
from web.process.limits import Limits
from web.serving.app import create_app

CHAT = "/v1/chat/completions"
STREAM: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


async def test_the_headers_come_before_the_first_token() -> None:
    engine = FakeEngine()
    async with posting(create_app(as_engine(engine)), CHAT, STREAM) as connection:
        request = await engine.next_request()
        await wait_all_tasks_blocked()
        assert connection.status == 200
        assert connection.headers["x-request-id"] == request.id
        assert connection.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert connection.headers["cache-control"] == "no-cache"
        assert connection.headers["x-accel-buffering"] == "no"
        request.emit(*say("a"))
        chunks = events_of(await connection.receive_all())
    assert {chunk["id"] for chunk in chunks[:-1]} == {request.id}
    assert request.hung_up is None
    assert request.left.is_set()


async def test_whatever_is_buffered_goes_out_in_one_write() -> None:
    engine = FakeEngine(say("a", "b", "c"))
    async with posting(create_app(as_engine(engine)), CHAT, STREAM) as connection:
        assert len(events_of(await connection.receive())) == 5  # role, three tokens, the finish
        assert await connection.receive_all() == DONE


async def test_what_waited_for_a_reader_goes_out_in_bounded_writes_with_others_in_between() -> None:
    """A reader that paused comes back to a thousand tokens and a long prompt's ids."""
    turns = 0

    class Back(Exchange):
        async def app_sends(self, message: Any) -> None:  # noqa: ANN401
            if message["type"] == "http.response.body":
                sizes.append(len(message["body"]))
                turns_before.append(turns)
                if message["body"]:
                    self._from_app.send_nowait(message["body"])

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    sizes, turns_before = list[int](), list[int]()
    top = tuple((n, -1.0) for n in range(65, 85))
    tokens = [token("A", logprobs=TokenLogprobs(-0.5, top)) for _ in range(1000)]
    engine = FakeEngine([*tokens, finished(tokens=1000)])
    engine.model.context_length = 100_000
    body = {"prompt": [7] * 50_000, "stream": True, "logprobs": 20, "return_token_ids": True}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        async with posting(create_app(as_engine(engine)), "/v1/completions", body, exchange=Back) as connection:
            *chunks, done = events_of(await connection.receive_all())
        nursery.cancel_scope.cancel()
    assert done == "[DONE]"
    assert chunks[0]["choices"][0]["prompt_token_ids"] == [7] * 50_000
    assert [choice["token_ids"] for choice in choices(chunks[1:-1])] == [[65]] * 1000
    assert max(sizes) <= Limits().write_bytes
    assert len(sizes) > sum(sizes) // Limits().write_bytes
    # Trio draws by lot which of two tasks has its turn first.
    assert all(later > earlier for earlier, later in zip(turns_before, turns_before[2:-2], strict=False))


async def test_tokens_without_text_are_taken_with_others_in_between(autojump_clock: MockClock) -> None:
    """They make no bytes by which to bound a write."""
    turns = 0

    class Counting(FakeRequest):
        def event_nowait(self) -> Event | None:
            in_a_row.append(turns)
            return super().event_nowait()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    in_a_row: list[int] = []
    parsed = completion(stream=True)
    request = Counting(parsed.request)
    request.emit(*[token("") for _ in range(9 * MAX_EVENTS)], finished(text="held back"))
    writer = parsed.formatter()
    stream = EventStream(cast("Request", request), writer, 10, trio.lowlevel.checkpoint, Limits().write_bytes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await trio.lowlevel.checkpoint()
        written = b"".join([data async for data in stream])
        nursery.cancel_scope.cancel()
    assert events_of(written)[0]["choices"][0]["text"] == "held back"
    assert max(Counter(in_a_row).values()) <= 2 * MAX_EVENTS + 2  # as of two turns, Trio may draw these first


async def test_done_means_that_the_request_was_left() -> None:
    class Watched(Exchange):
        async def app_sends(self, message: Any) -> None:  # noqa: ANN401
            sent.append((message.get("body"), bool(engine.live)))

    sent: list[tuple[bytes | None, bool]] = []
    engine = FakeEngine(say("a"))
    async with posting(create_app(as_engine(engine)), CHAT, STREAM, exchange=Watched):
        pass
    assert [live for _, live in sent] == [True, True, False, False]  # headers, chunks, [DONE], the end
    assert sent[2][0] == DONE


async def test_silence_is_filled_with_chunks_that_say_nothing(autojump_clock: MockClock) -> None:
    async def slow(request: FakeRequest) -> None:
        await trio.sleep(25)
        request.emit(token("a"))
        await trio.sleep(9)
        request.emit(finished())

    app = create_app(as_engine(FakeEngine(slow)), keep_alive=10)
    async with posting(app, CHAT, STREAM) as connection:
        arrived = [(trio.current_time(), data) async for data in connection.writes]
    start = arrived[0][0] - 10
    silent = b'"finish_reason":null,"delta":{}'
    assert [(when - start, silent in data) for when, data in arrived[:4]] == [
        (10, True),
        (20, True),
        (25, False),
        (34, False),
    ]


async def test_tokens_without_text_do_not_put_a_sign_of_life_off(autojump_clock: MockClock) -> None:
    async def mute(request: FakeRequest) -> None:
        request.emit(token("a"))
        for _ in range(3):
            await trio.sleep(4)
            request.emit(token(""))
        request.emit(finished())

    app = create_app(as_engine(FakeEngine(mute)), keep_alive=10)
    async with posting(app, CHAT, STREAM) as connection:
        deltas = [choice["delta"] for choice in choices(events_of(await connection.receive_all()))]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "a"}, {}, {}]


async def test_a_hang_up_leaves_the_request_at_once() -> None:
    engine = FakeEngine([token("a")])
    async with posting(create_app(as_engine(engine)), CHAT, STREAM) as connection:
        request = await engine.next_request()
        await connection.receive()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


async def test_a_connection_that_the_guard_cut_was_stalled() -> None:
    class Scope:
        stalled = True

    engine = FakeEngine([token("a")])
    state = {"request_scope": Scope()}
    async with posting(create_app(as_engine(engine)), CHAT, STREAM, state=state) as connection:
        request = await engine.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.STALLED_READER


async def test_a_hang_up_between_handler_and_body_leaks_nothing() -> None:
    """The client goes while the headers are being sent: the handler has returned, the body was not entered."""

    class Blocked(Exchange):
        async def app_sends(self, message: Any) -> None:  # noqa: ANN401
            assert message["type"] == "http.response.start"
            self.disconnect()
            await trio.sleep_forever()

    engine = FakeEngine()
    async with posting(create_app(as_engine(engine)), CHAT, STREAM, exchange=Blocked):
        request = await engine.next_request()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


async def test_a_refusal_is_an_ordinary_http_error() -> None:
    engine = FakeEngine()
    engine.refusal = QueueFull("64 requests wait already", retry_after=1.2)
    response = await create_app(as_engine(engine)).test_client().post(CHAT, json=STREAM)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"
    assert (await response.get_json())["error"]["code"] == "queue_full"


async def test_a_failure_in_the_stream_is_an_event(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine([token("a"), Failed(0, StepFailed("the logits were not finite"))])
    async with posting(create_app(as_engine(engine)), CHAT, STREAM) as connection:
        chunks = events_of(await connection.receive_all())
    assert chunks[-1]["error"]["code"] == "step_failed"
    assert "the logits were not finite" in caplog.text
    assert (await engine.next_request()).cancels == [CancelReason.FAULT]


async def test_a_fault_of_our_own_ends_the_stream_in_good_order(caplog: pytest.LogCaptureFixture) -> None:
    async def nonsense(request: FakeRequest) -> None:
        request.emit("no event")  # type: ignore[arg-type]

    engine = FakeEngine(nonsense)
    async with posting(create_app(as_engine(engine)), CHAT, STREAM) as connection:
        (chunk,) = events_of(await connection.receive_all())
    assert chunk["error"]["type"] == "server_error"
    assert "a stream failed" in caplog.text


async def test_an_actor_that_crashes_is_logged_and_costs_its_own_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crash(request: FakeRequest) -> None:
        request.emit(token("a"))
        await wait_all_tasks_blocked()
        raise ValueError("a bug")

    async with posting(create_app(as_engine(FakeEngine(crash))), CHAT, STREAM) as connection:
        assert b'"a"' in await connection.receive()
    assert "a bug" in caplog.text
    assert connection.status == 200


async def test_cancelling_by_id_ends_the_stream_and_says_so() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine))
    async with posting(app, CHAT, STREAM) as connection:
        await connection.receive()
        url = f"/v1/requests/{connection.headers['x-request-id']}"
        response = await app.test_client().delete(url)
        assert response.status_code == 200
        *_, last, done = events_of(await connection.receive_all())
        assert last["choices"][0]["cede"] == {"cancelled": "operator"}
        assert done == "[DONE]"
        assert (await app.test_client().delete(url)).status_code == 404
    assert (await engine.next_request()).cancels == [CancelReason.OPERATOR]
