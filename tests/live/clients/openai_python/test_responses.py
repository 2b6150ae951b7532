"""The Responses API on real servers: the `openai` client, clients that leave, and servers that are killed."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest
import trio

from tests.live.clients.openai_python.clients import client_of
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, prompt
from tests.live.server import Json, Server, wait_for

PATH = "/v1/responses"
MODEL = "any-name"
ENDLESS: Json = {"ignore_eos": True}
LONG = "".join(map(chr, (97 + token % 26 for token in prompt(3000, seed=31))))
"""A text of a few thousand tokens, which nobody else's prompt begins with."""


# --- the openai client ------------------------------------------------------------------------------------------------


def test_a_stream_says_the_same_as_a_whole_answer(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "input": "Write a function.", "max_output_tokens": 12, "temperature": 0}
    whole = client.responses.create(**asked, extra_body=ENDLESS)
    assert (whole.status, whole.model) == ("incomplete", MODEL)
    assert whole.usage is not None
    assert whole.usage.output_tokens == 12
    with client.responses.stream(**asked, extra_body=ENDLESS) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.incomplete"
    assert "".join(deltas) == whole.output_text == events[-1].response.output_text
    assert client.responses.retrieve(whole.id).output_text == whole.output_text


def test_a_conversation_goes_on_where_it_was(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="import os", max_output_tokens=5, extra_body=ENDLESS)
    second = client.responses.create(
        model=MODEL, input="import re", previous_response_id=first.id, max_output_tokens=5, extra_body=ENDLESS
    )
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    items = client.responses.input_items.list(second.id, order="asc", limit=2)
    assert [item.type for item in items] == ["message"] * 3  # over two pages
    counted = client.responses.input_tokens.count(model=MODEL, input="import re", previous_response_id=first.id)
    assert counted.input_tokens == second.usage.input_tokens
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError, match="not found"):
        client.responses.create(model=MODEL, input="x", previous_response_id=second.id)


def test_log_probabilities(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model=MODEL,
        input="import os",
        max_output_tokens=4,
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        extra_body=ENDLESS,
    )
    (message,) = answer.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert [len(logprob.top_logprobs) for logprob in part.logprobs] == [2] * 4


class Answer(pydantic.BaseModel):
    """Answer that a model without a mind of its own is made to give."""

    model_config = pydantic.ConfigDict(extra="forbid")
    yes: bool


def test_an_answer_is_parsed(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(
        model=MODEL, input="import os", text_format=Answer, max_output_tokens=200, temperature=0
    )
    assert isinstance(parsed.output_parsed, Answer)


def test_what_a_tool_returned_is_read(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "name": "say", "parameters": Answer.model_json_schema()}
    items: Any = [
        {"role": "user", "content": "import os"},
        {"type": "function_call", "call_id": "call_1", "name": "say", "arguments": '{"yes": true}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
    ]
    answer = client.responses.create(
        model=MODEL, input=items, tools=[tool], max_output_tokens=5, tool_choice="none", extra_body=ENDLESS
    )
    assert answer.output_text


def test_one_in_the_background_is_followed_left_and_taken_up_again(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "input": "import os", "max_output_tokens": 60, "background": True}
    known: list[Any] = []
    with client.responses.create(**asked, stream=True, extra_body=ENDLESS) as stream:
        for event in stream:
            known.append(event)
            if len(known) == 7:
                break
    response_id = known[0].response.id
    with client.responses.retrieve(response_id, stream=True, starting_after=6) as rest:
        known += rest
    assert [event.sequence_number for event in known] == list(range(len(known)))
    deltas = [event.delta for event in known if event.type == "response.output_text.delta"]
    stored = client.responses.retrieve(response_id)
    assert (stored.status, stored.output_text) == ("incomplete", "".join(deltas))
    assert known[-1].response == stored


def test_one_in_the_background_is_cancelled(client: openai.OpenAI, four_slots: Server) -> None:
    made = client.responses.create(
        model=MODEL, input="import os", max_output_tokens=4000, background=True, extra_body=ENDLESS
    )
    four_slots.wait_state(made.id, "decode")
    assert client.responses.cancel(made.id).status == "cancelled"
    (receipt,) = four_slots.wait_ended(made.id)
    assert receipt["reason"] == "operator"
    assert client.responses.retrieve(made.id).status == "cancelled"


def test_the_asynchronous_client(four_slots: Server) -> None:
    async def talk() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=four_slots.url + "/v1", api_key="none", max_retries=0) as client:
            asked: Any = {"model": MODEL, "input": "import os", "max_output_tokens": 6, "temperature": 0}
            whole = await client.responses.create(**asked, extra_body=ENDLESS)
            text = ""
            async for event in await client.responses.create(**asked, stream=True, extra_body=ENDLESS):
                text += event.delta if event.type == "response.output_text.delta" else ""
            return whole.output_text, text

    whole, streamed = trio.run(talk)
    assert whole == streamed


# --- clients that leave -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
def test_a_client_that_leaves_is_receipted_and_nothing_is_stored(
    one_slot: ForkedServer, phase: str, stream: bool
) -> None:
    body = {"input": LONG if phase == "prefill" else "import os", "max_output_tokens": 3000, "stream": stream} | ENDLESS
    filler = Http1(one_slot, {"input": "x", "max_output_tokens": 3000} | ENDLESS, PATH) if phase == "queued" else None
    if filler is not None:
        (filler_id,) = wait_for(lambda: one_slot.requests().keys(), "the one before it")
        one_slot.wait_state(filler_id, "decode")
    known = set(one_slot.requests())
    with nullcontext() if phase == "decode" else one_slot.held():  # it stays in this phase
        victim = Http1(one_slot, body | {"cache_prompt": False}, PATH)
        (victim_id,) = wait_for(lambda: one_slot.requests().keys() - known, "the request")
        one_slot.wait_state(victim_id, phase)
        victim.close()
    (receipt,) = one_slot.wait_ended(victim_id)
    assert receipt["reason"] == "client_disconnect"
    if filler is not None:
        assert receipt["phase"] == "queued"
        filler.close()
    assert one_slot.ask("GET", f"{PATH}/{victim_id}")[0] == 404
    one_slot.wait_idle()


# --- servers that end -------------------------------------------------------------------------------------------------


def test_what_was_answered_outlives_a_kill_and_what_was_not_has_failed(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"), "--slots", "2")
    asked: Any = {"model": MODEL, "max_output_tokens": 4, "extra_body": ENDLESS}
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        answered = client.responses.create(input="import os", **asked)
        endless = client.responses.create(
            model=MODEL, input="import re", max_output_tokens=4000, background=True, extra_body=ENDLESS
        )
        server.wait_state(endless.id, "decode")
        assert server.ask("POST", PATH, {"input": "x", "max_output_tokens": 2})[0] == 200
        server.signal(signal.SIGKILL)
        server.wait_exit()
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        assert client.responses.retrieve(answered.id) == answered
        failed = client.responses.retrieve(endless.id)
        assert failed.status == "failed"
        assert failed.error is not None
        assert "server ended" in failed.error.message
        following = client.responses.create(input="x", previous_response_id=answered.id, **asked)
        assert following.status == "incomplete"


def test_at_shutdown_what_runs_in_the_background_is_cancelled_and_stored_so(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"), "--grace", "0")
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        endless = client.responses.create(
            model=MODEL, input="import re", max_output_tokens=4000, background=True, extra_body=ENDLESS
        )
        server.wait_state(endless.id, "decode")
        with client.responses.retrieve(endless.id, stream=True) as stream:
            next(iter(stream))
            server.signal(signal.SIGTERM)
            *_, last = stream
        assert last.type == "response.incomplete"
        assert server.wait_exit() == 0
    with ForkedServer(tmp_path, *flags) as server, client_of(server) as client:
        assert client.responses.retrieve(endless.id).status == "cancelled"


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    flags = ("--state-dir", str(tmp_path / "state"))
    with ForkedServer(tmp_path, *flags) as server:
        server.wait_ready()
        other = ForkedServer(tmp_path, *flags)
        assert other.wait_exit() == 1
        assert "does another server use it?" in other.log()
        other.end()
