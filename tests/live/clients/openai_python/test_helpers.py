"""Additions of the `openai` client to plain requests: parsed answers, tasks, timeouts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import openai
import pydantic
import pytest

from tests.live.clients.openai_python.test_chat_and_completions import ENDLESS, MESSAGES, MODEL
from tests.live.server import Server


class Paint(pydantic.BaseModel):
    """Paint it."""

    colour: Literal["red", "green"]
    coats: Literal[1, 2, 3]


ASKED: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "temperature": 0}


def test_an_answer_is_parsed_into_a_model_of_pydantics(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**ASKED, response_format=Paint, max_tokens=200)
    assert isinstance(answer.choices[0].message.parsed, Paint)


def test_a_client_that_waits_no_longer_leaves_nothing(client: openai.OpenAI, four_slots: Server) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).chat.completions.create(**ASKED, max_tokens=4000, extra_body=ENDLESS)
    four_slots.wait_idle()


def test_a_stream_of_a_task_that_is_closed(four_slots: Server) -> None:
    async def begin() -> str:
        async with openai.AsyncOpenAI(base_url=four_slots.url + "/v1", api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(**ASKED, max_tokens=4000, stream=True, extra_body=ENDLESS)
            async with stream:
                return str((await anext(aiter(stream))).id)

    with ThreadPoolExecutor(1) as pool:  # where no event loop of Trio's runs
        request_id = pool.submit(asyncio.run, begin()).result()
    (receipt,) = four_slots.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"


def test_the_best_of_two_and_a_prompt_alone(client: openai.OpenAI) -> None:
    best = client.completions.create(model=MODEL, prompt="def add(", best_of=2, max_tokens=4, extra_body=ENDLESS)
    assert len(best.choices) == 1
    assert best.usage is not None
    assert best.usage.completion_tokens == 8
    alone = client.completions.create(model=MODEL, prompt="def add(", max_tokens=0, echo=True).choices[0]
    assert (alone.text, alone.finish_reason) == ("def add(", "length")
