"""What the `openai` client adds to plain requests: parsed answers, tools, events of a stream, tasks, timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import openai
import pydantic
import pytest

from tests.live.clients.test_openai_client import ENDLESS, MESSAGES, MODEL, client_of
from tests.live.server import Server, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


class Paint(pydantic.BaseModel):
    """Paint it."""

    colour: Literal["red", "green"]
    coats: Literal[1, 2, 3]


@pytest.fixture
def client(four_slots: Server) -> Iterator[openai.OpenAI]:
    with client_of(four_slots) as client:
        yield client
    four_slots.wait_idle()


ASKED: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "temperature": 0}
TOOLS: dict[str, Any] = {"tools": [openai.pydantic_function_tool(Paint)], "tool_choice": "required"}


def test_an_answer_is_parsed_into_a_model_of_pydantics(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**ASKED, response_format=Paint)
    assert isinstance(answer.choices[0].message.parsed, Paint)


def test_a_call_is_the_same_in_a_stream_and_whole(client: openai.OpenAI) -> None:
    whole = client.chat.completions.parse(**ASKED, **TOOLS, parallel_tool_calls=False).choices[0]
    with client.chat.completions.stream(**ASKED, **TOOLS, parallel_tool_calls=False) as stream:
        kinds = {event.type for event in stream}
        streamed = stream.get_final_completion().choices[0]
    assert {"chunk", "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    for choice in (whole, streamed):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls is not None
        assert isinstance(choice.message.tool_calls[0].function.parsed_arguments, Paint)
    assert whole.message.tool_calls is not None
    assert streamed.message.tool_calls is not None
    assert [call.function.arguments for call in whole.message.tool_calls] == [
        call.function.arguments for call in streamed.message.tool_calls
    ]


def test_what_was_called_is_gone_on_with(client: openai.OpenAI) -> None:
    asked = client.chat.completions.create(**ASKED, **TOOLS, parallel_tool_calls=False).choices[0].message
    assert asked.tool_calls is not None
    history = [
        *MESSAGES,
        asked.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "done"},
    ]
    answer = client.chat.completions.create(
        **ASKED | {"messages": history}, tools=TOOLS["tools"], tool_choice="none", max_tokens=4
    )
    assert answer.choices[0].message.role == "assistant"


def test_a_client_that_waits_no_longer_leaves_nothing(client: openai.OpenAI, four_slots: Server) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).chat.completions.create(**ASKED, max_tokens=4000, extra_body=ENDLESS)
    four_slots.wait_idle()


async def test_a_stream_of_a_task_that_is_closed(four_slots: Server) -> None:
    """The asynchronous client runs on Trio as it does on asyncio."""
    async with openai.AsyncOpenAI(base_url=four_slots.url + "/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(**ASKED, max_tokens=4000, stream=True, extra_body=ENDLESS)
        async with stream:
            request_id = (await anext(aiter(stream))).id
    (receipt,) = four_slots.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    wait_for(lambda: request_id not in four_slots.requests(), "the request's end")


def test_the_best_of_two_and_a_prompt_alone(client: openai.OpenAI) -> None:
    best = client.completions.create(model=MODEL, prompt="def add(", best_of=2, max_tokens=4, extra_body=ENDLESS)
    assert len(best.choices) == 1
    assert best.usage is not None
    assert best.usage.completion_tokens == 8
    alone = client.completions.create(model=MODEL, prompt="def add(", max_tokens=0, echo=True).choices[0]
    assert (alone.text, alone.finish_reason) == ("def add(", "length")
