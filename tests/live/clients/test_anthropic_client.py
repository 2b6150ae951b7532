"""The `anthropic` client, as everyone uses it, against a real server."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import pytest

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import PATIENCE, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anthropic.types import Message

    from tests.live.fork_server import ForkedServer
    from tests.live.server import Json

HELLO: Json = {
    "model": "any-name",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "Write a function."}],
    "extra_body": {"temperature": 0, "ignore_eos": True},
}
ENDLESS = HELLO | {"max_tokens": 3000}
LONG = HELLO | {"messages": [{"role": "user", "content": "def add(a, b): return a + b\n" * 200}]}
CITY: Json = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Json = {"name": "weather", "input_schema": CITY}


def client_of(server: Server, **options: Any) -> anthropic.Anthropic:  # noqa: ANN401
    return anthropic.Anthropic(
        base_url=server.url, api_key="none", **({"max_retries": 0, "timeout": PATIENCE} | options)
    )


def async_client_of(server: Server) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0, timeout=PATIENCE)


@pytest.fixture
def client(four_slots: Server) -> Iterator[anthropic.Anthropic]:
    with client_of(four_slots) as client:
        yield client
    four_slots.wait_idle()


def text_of(message: Message) -> str:
    (block,) = message.content
    assert block.type == "text"
    return block.text


def test_the_models(client: anthropic.Anthropic) -> None:
    (model,) = client.models.list()
    assert client.models.retrieve(model.id).max_input_tokens == model.max_input_tokens


def test_a_message(client: anthropic.Anthropic) -> None:
    answer = client.messages.with_raw_response.create(**HELLO)
    message = answer.parse()
    assert answer.headers["request-id"] == message.id
    assert (message.model, message.role, message.stop_reason) == ("any-name", "assistant", "max_tokens")
    assert message.usage.output_tokens == 16
    assert text_of(message)


def test_a_stream_says_the_same_as_a_whole_message(client: anthropic.Anthropic) -> None:
    whole = client.messages.create(**HELLO)
    with client.messages.stream(**HELLO) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == text_of(last) == text_of(whole)
    assert last.stop_reason == whole.stop_reason
    assert last.usage.output_tokens == whole.usage.output_tokens


def test_a_prompt_that_came_before_is_counted_as_cached(client: anthropic.Anthropic) -> None:
    client.messages.create(**LONG)
    usage = client.messages.create(**LONG).usage
    assert usage.cache_read_input_tokens
    counted = client.messages.count_tokens(model="any", messages=LONG["messages"])
    assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens


def test_the_stop_sequence_that_ended_it_is_named(client: anthropic.Anthropic) -> None:
    text = text_of(client.messages.create(**HELLO))
    stop = text[5:8]
    message = client.messages.create(**HELLO | {"stop_sequences": ["never said", stop]})
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert text_of(message) == text[: text.index(stop)]


def test_an_answer_of_a_schema(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**HELLO, output_config={"format": {"type": "json_schema", "schema": CITY}})
    assert json.loads(text_of(message))["city"] in ("Rome", "Oslo")
    assert message.stop_reason == "end_turn"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_has_to_be_made(client: anthropic.Anthropic, stream: bool) -> None:
    asked = HELLO | {
        "max_tokens": 400,
        "tools": [WEATHER],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }
    if stream:
        with client.messages.stream(**asked) as events:
            message: Message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    assert message.stop_reason == "tool_use"
    (call, *_) = [block for block in message.content if block.type == "tool_use"]
    assert (call.name, call.input["city"] in ("Rome", "Oslo")) == ("weather", True)


def test_two_streams_at_a_time_of_the_asynchronous_client(client: anthropic.Anthropic, four_slots: Server) -> None:
    async def stream_once(asynchronous: anthropic.AsyncAnthropic) -> str:
        async with asynchronous.messages.stream(**HELLO) as stream:
            return "".join([text async for text in stream.text_stream])

    async def stream_twice() -> list[str]:
        async with async_client_of(four_slots) as asynchronous:
            return list(await asyncio.gather(stream_once(asynchronous), stream_once(asynchronous)))

    assert asyncio.run(stream_twice()) == [text_of(client.messages.create(**HELLO))] * 2


# --- clients that leave -----------------------------------------------------------------------------------------------


def check_left(server: Server, request_id: str, phase: str = "decode") -> None:
    """One receipt, of the right kind; nothing is held."""
    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    assert phase in ("any", receipt["phase"]) or receipt["phase"] in ("draft", "verify")
    assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
    server.wait_idle()


def test_a_stream_that_is_closed_midway(client: anthropic.Anthropic, four_slots: Server) -> None:
    with client.messages.stream(**ENDLESS) as stream:
        next(stream.text_stream)
        request_id = stream.current_message_snapshot.id
    check_left(four_slots, request_id)


def test_an_iterator_that_is_closed_midway(client: anthropic.Anthropic, four_slots: Server) -> None:
    stream = client.messages.create(**ENDLESS, stream=True)
    first = next(iter(stream))
    assert first.type == "message_start"
    stream.close()
    check_left(four_slots, first.message.id, "any")


def check_given_up(server: Server, give_up: Callable[[float], None], phase: str) -> None:
    """A client that waits for so many seconds leaves a message behind that was cancelled.

    Where that is too short for the server to have seen the message, it waits longer.
    """
    known = cancelled_messages(server)
    for seconds in (0.5, 5, 50):
        give_up(seconds)
        if left := cancelled_messages(server) - known:
            check_left(server, left.pop(), phase)
            return
    pytest.fail("the server has never seen the message")


def cancelled_messages(server: Server) -> set[str]:
    """The ids of the messages that were cancelled lately, once nothing runs."""
    server.wait_idle()
    receipts = server.get("/v1/receipts?limit=1024")["data"]
    return {str(receipt["request_id"]) for receipt in receipts if receipt["request_id"].startswith("msg_")}


def test_a_client_that_has_no_time_for_a_whole_message(four_slots: ForkedServer) -> None:
    def give_up(seconds: float) -> None:
        with four_slots.held(), client_of(four_slots, timeout=seconds) as impatient:
            with pytest.raises(anthropic.APITimeoutError):
                impatient.messages.create(**ENDLESS)

    check_given_up(four_slots, give_up, "any")


def test_a_client_that_has_no_time_to_wait_in_the_queue(four_slots: ForkedServer) -> None:
    """A stream in the queue says nothing until its first ping, which comes later than this client waits."""

    def give_up(seconds: float) -> None:
        with Http1(four_slots, completion([prompt(10)] * 4, 4000)) as crowd:
            four_slots.wait_state(crowd.id, "decode")
            with four_slots.held(), client_of(four_slots, timeout=seconds) as impatient:
                with pytest.raises((anthropic.APITimeoutError, httpx2.ReadTimeout)):
                    next(iter(impatient.messages.create(**ENDLESS, stream=True)))

    check_given_up(four_slots, give_up, "queued")


def test_a_task_that_is_cancelled(four_slots: Server) -> None:
    async def cancel_midway() -> str:
        started = asyncio.Event()
        seen: list[str] = []

        async def read(client: anthropic.AsyncAnthropic) -> None:
            async with client.messages.stream(**ENDLESS) as stream:
                async for _ in stream.text_stream:
                    seen.append(stream.current_message_snapshot.id)
                    started.set()

        async with async_client_of(four_slots) as client:
            reading = asyncio.create_task(read(client))
            await started.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        return seen[0]

    check_left(four_slots, asyncio.run(cancel_midway()))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_errors_of_the_clients_making(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as bad:
        client.messages.create(**HELLO | {"extra_body": {"temperature": 7}})
    assert bad.value.type == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: "):
        client.messages.create(**HELLO | {"messages": [{"role": "user", "content": "def " * 6000}]})
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.models.retrieve("no-such-model")
    assert missing.value.type == "not_found_error"


def test_a_full_queue_says_when_to_come_again(short_queue: ForkedServer) -> None:
    crowd = completion([prompt(10)] * 17, 4000)
    with client_of(short_queue) as client, short_queue.held(), Http1(short_queue, crowd) as waiting:
        assert waiting.id in short_queue.requests()
        with pytest.raises(anthropic.InternalServerError) as refused:
            client.messages.create(**HELLO)
    assert (refused.value.status_code, refused.value.type) == (529, "overloaded_error")
    assert int(refused.value.response.headers["retry-after"]) >= 1
    short_queue.wait_idle()
