"""Prompts are read ahead of time on a real server, and the requests that follow find them."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import Server, wait_for

ATTEMPTS = 20
"""To find a stream still running that others were to hear of."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ForkedServer(tmp_path_factory.mktemp("server"), "--slots", "2") as made:
        yield made


def test_a_warm_prompt_is_found_by_the_next_request(server: Server) -> None:
    ids = prompt(700, seed=1)
    status, answer = server.ask("POST", "/v1/completions", completion(ids, 0, stream=False, cede={"warm": True}))
    assert (status, answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (200, 700, 0)
    assert answer["choices"][0]["cede"] == {"warmed_tokens": 700}
    _, answer = server.ask("POST", "/v1/completions", completion([*ids, 5, 6], 1, stream=False))
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 700


def test_openais_client_warms_a_chat_by_a_header(server: Server) -> None:
    text, warm = "import os\n" * 40, {"x-cede-warm": "true"}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        warmed = client.completions.create(model="any", prompt=text, max_tokens=0, extra_headers=warm)
        after = client.completions.create(model="any", prompt=text, max_tokens=1)
    assert warmed.choices[0].text == ""
    assert warmed.usage is not None
    assert after.usage is not None
    assert after.usage.prompt_tokens_details is not None
    assert after.usage.prompt_tokens_details.cached_tokens == warmed.usage.prompt_tokens - 1


def test_beside_a_stream_it_is_told_that_others_have_work(server: Server) -> None:
    for attempt in range(ATTEMPTS):
        with Http1(server, completion(prompt(20, seed=attempt), 900)):
            stream = wait_for(lambda: next(iter(server.requests()), ""), "the stream")
            body = completion(prompt(300, seed=50 + attempt), 0, stream=False, cede={"warm": True})
            status, answer = server.ask("POST", "/v1/completions", body)
            was_there = stream in server.requests()
        wait_for(lambda: not server.requests(), "the end of the stream")
        if was_there:
            break
    assert was_there
    assert (status, answer["choices"][0]["cede"]) == (200, {"cancelled": "other_work", "warmed_tokens": 0})
    (receipt,) = server.receipts(answer["id"])
    assert (receipt["reason"], receipt["phase"], receipt["warm"]) == ("other_work", "queued", True)
