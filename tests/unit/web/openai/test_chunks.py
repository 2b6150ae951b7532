"""Server-sent events: OpenAI's chunks to the letter, keep-alives in virtual time, and ends of every kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, QueueTimeout, StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import (
    BOS,
    TIMINGS,
    Exchange,
    FakeEngine,
    FakeRequest,
    as_engine,
    chat,
    completion,
    events_of,
    finished,
    posting,
    say,
    token,
)
from web.app import create_app
from web.limits import Limits
from web.openai.chunks import DONE, KEEP_ALIVE, MAX_EVENTS, ChunkWriter, EventStream
from web.openai.formats import timings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trio.testing import MockClock

    from actors.core.generation import Event
    from actors.request import Request
    from web.openai.conversion import ParsedRequest

CHAT = "/v1/chat/completions"
STREAM: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


def written(parsed: ParsedRequest, *events: Any) -> list[Any]:  # noqa: ANN401
    writer = ChunkWriter(parsed.options, parsed.format)
    chunks = chunks_of(writer, events)
    return events_of(chunks + writer.closing() if writer.finished else chunks)


def chunks_of(writer: ChunkWriter, events: Iterable[Event]) -> bytes:
    return b"".join(piece for event in events for piece in writer.write(event))


def choices(chunks: list[Any]) -> list[Any]:
    return [chunk["choices"][0] for chunk in chunks if chunk != "[DONE]"]


# --- the writer -------------------------------------------------------------------------------------------


def test_a_chat_stream() -> None:
    parsed = chat(model="any", stream=True)
    *chunks, done = written(parsed, *say("Hel", "lo"))
    assert done == "[DONE]"
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert (chunk["id"], chunk["model"], chunk["created"]) == (parsed.request.id, "any", parsed.options.created)
        assert "usage" not in chunk
    assert choices(chunks) == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "Hel"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "lo"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"},
    ]


def test_a_text_stream() -> None:
    *chunks, done = written(completion(stream=True), *say("a", "b"))
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert choices(chunks) == [
        {"index": 0, "text": "a", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "b", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"},
    ]


def test_text_held_back_comes_before_the_finish() -> None:
    *chunks, _ = written(completion(stream=True), token(""), finished(text="EN", reason=FinishReason.LENGTH))
    assert [(c["text"], c["finish_reason"]) for c in choices(chunks)] == [("EN", None), ("", "length")]


@pytest.mark.parametrize("text", ['"\\', "\n\r\0", "\u2028é漢🙂", "data: x\n\n", "\\u0000"])
def test_any_text_survives(text: str) -> None:
    parsed = chat(model=f"m{text}", stream=True)
    chunks = written(parsed, token(text), finished())[1:2]
    assert choices(chunks)[0]["delta"]["content"] == text
    assert chunks[0]["model"] == f"m{text}"


def test_usage_comes_last_with_no_choices() -> None:
    parsed = chat(stream=True, stream_options={"include_usage": True})
    *chunks, last, done = written(parsed, token("a"), finished(tokens=1, cached=5))
    assert done == "[DONE]"
    assert all(chunk["usage"] is None for chunk in chunks)
    prompt = len(parsed.request.prompts[0])
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 1,
        "total_tokens": prompt + 1,
        "prompt_tokens_details": {"cached_tokens": 5},
    }


def test_the_last_chunk_has_llama_servers_timings() -> None:
    *chunks, _ = written(chat(stream=True), *say("a"))
    assert chunks[-1]["timings"] == {
        "cache_n": 2,
        "prompt_n": 3,
        "prompt_ms": 6.0,
        "prompt_per_token_ms": 2.0,
        "prompt_per_second": 500.0,
        "predicted_n": 4,
        "predicted_ms": 10.0,
        "predicted_per_token_ms": 2.5,
        "predicted_per_second": 400.0,
    }
    assert not any("timings" in chunk for chunk in chunks[:-1])


def test_timings_count_drafts_where_some_were_made() -> None:
    """As llama-server: absent otherwise."""
    drafted = replace(TIMINGS, draft_n=8, draft_n_accepted=5)
    assert timings([TIMINGS, drafted, drafted]).items() >= {"draft_n": 16, "draft_n_accepted": 10}.items()
    assert timings([replace(TIMINGS, draft_n=3)])["draft_n_accepted"] == 0
    assert not any(name.startswith("draft") for name in timings([TIMINGS]))


def test_choices_interleave_and_each_opens_with_its_role() -> None:
    parsed = chat(stream=True, n=2, stream_options={"include_usage": True})
    events = [token("a", 1), token("b", 0), token("c", 1), finished(1, tokens=2), finished(0, tokens=1)]
    *chunks, usage, done = written(parsed, *events)
    seen = [(c["index"], c["delta"].get("content"), c["finish_reason"]) for c in choices(chunks)]
    assert seen == [
        (1, "", None),
        (1, "a", None),
        (0, "", None),
        (0, "b", None),
        (1, "c", None),
        (1, None, "stop"),
        (0, None, "stop"),
    ]
    assert usage["usage"]["prompt_tokens"] == len(parsed.request.prompts[0])  # once, not for each choice
    assert usage["usage"]["completion_tokens"] == 3
    assert done == "[DONE]"


def test_chat_logprobs() -> None:
    logprobs = TokenLogprobs(-0.5, ((65, -0.5), (0xC3, -1.5)))
    parsed = chat(stream=True, logprobs=True, top_logprobs=2)
    chunks = written(parsed, token("A", logprobs=logprobs), token("", logprobs=TokenLogprobs(-2.0)), finished())
    first, second = choices(chunks)[1:3]
    assert first["logprobs"] == {
        "content": [
            {
                "token": "A",
                "logprob": -0.5,
                "bytes": [65],
                "top_logprobs": [
                    {"token": "A", "logprob": -0.5, "bytes": [65]},
                    {"token": "\\xc3", "logprob": -1.5, "bytes": [0xC3]},
                ],
            }
        ],
        "refusal": None,
    }
    assert second["delta"] == {"content": ""}  # nothing to show yet, but a token to account for
    assert second["logprobs"]["content"][0]["logprob"] == -2.0


def test_completion_logprobs() -> None:
    parsed = completion(stream=True, logprobs=1)
    events = [token(t, logprobs=TokenLogprobs(-0.5, ((66, -0.1),))) for t in "AC"]
    shown = [choice["logprobs"] for choice in choices(written(parsed, *events, finished()))]
    assert shown == [
        {
            "tokens": ["A"],
            "token_logprobs": [-0.5],
            "top_logprobs": [{"B": -0.1, "A": -0.5}],
            "text_offset": [0],
        },
        {
            "tokens": ["C"],
            "token_logprobs": [-0.5],
            "top_logprobs": [{"B": -0.1, "C": -0.5}],
            "text_offset": [1],
        },
        None,
    ]


def test_token_ids_in_a_chat_stream() -> None:
    parsed = chat(stream=True, return_token_ids=True)
    first, second, *_ = written(parsed, token("a"), finished())
    assert first["prompt_token_ids"] == list(parsed.request.prompts[0])
    assert second["choices"][0]["token_ids"] == [97]
    assert "prompt_token_ids" not in second


def test_token_ids_and_echo_in_a_text_stream() -> None:
    parsed = completion(prompt="hi", stream=True, return_token_ids=True, echo=True)
    first, second, _ = choices(written(parsed, token("a"), finished()))
    assert (first["text"], first["prompt_token_ids"]) == ("hi", [BOS, *b"hi"])
    assert (second["text"], second["token_ids"]) == ("a", [97])


def test_a_cancelled_stream_ends_properly() -> None:
    *chunks, done = written(chat(stream=True), token("a"), finished(reason=FinishReason.CANCELLED))
    assert choices(chunks)[-1]["finish_reason"] == "cancelled"
    assert done == "[DONE]"


def test_an_error_ends_the_stream_without_done() -> None:
    writer = ChunkWriter((parsed := chat(stream=True, n=2)).options, parsed.format)
    events: list[Event] = [token("a"), Failed(0, QueueTimeout("no slot came free")), token("b", 1)]
    *_, last = events_of(chunks_of(writer, events))
    error = {"message": "no slot came free", "type": "unavailable_error", "param": None, "code": "queue_timeout"}
    assert last == {"error": error}
    assert writer.failed
    assert not writer.finished


# --- over HTTP --------------------------------------------------------------------------------------------


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
    writer = ChunkWriter(parsed.options, parsed.format)
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


async def test_silence_is_filled_with_comments(autojump_clock: MockClock) -> None:
    async def slow(request: FakeRequest) -> None:
        await trio.sleep(25)
        request.emit(token("a"))
        await trio.sleep(9)
        request.emit(finished())

    app = create_app(as_engine(FakeEngine(slow)), keep_alive=10)
    async with posting(app, CHAT, STREAM) as connection:
        arrived = [(trio.current_time(), data == KEEP_ALIVE) async for data in connection.writes]
    start = arrived[0][0] - 10
    assert [(when - start, comment) for when, comment in arrived[:4]] == [
        (10, True),
        (20, True),
        (25, False),
        (34, False),
    ]


async def test_tokens_without_text_do_not_put_a_comment_off(autojump_clock: MockClock) -> None:
    async def mute(request: FakeRequest) -> None:
        request.emit(token("a"))
        for _ in range(3):
            await trio.sleep(4)
            request.emit(token(""))
        request.emit(finished())

    app = create_app(as_engine(FakeEngine(mute)), keep_alive=10)
    async with posting(app, CHAT, STREAM) as connection:
        assert KEEP_ALIVE in await connection.receive_all()


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
        request._send.send_nowait("no event")  # type: ignore[arg-type]

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


async def test_cancelling_by_id_ends_the_stream_with_cancelled() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine))
    async with posting(app, CHAT, STREAM) as connection:
        await connection.receive()
        url = f"/v1/requests/{connection.headers['x-request-id']}"
        response = await app.test_client().delete(url)
        assert response.status_code == 200
        *_, last, done = events_of(await connection.receive_all())
        assert last["choices"][0]["finish_reason"] == "cancelled"
        assert done == "[DONE]"
        assert (await app.test_client().delete(url)).status_code == 404
    assert (await engine.next_request()).cancels == [CancelReason.OPERATOR]
