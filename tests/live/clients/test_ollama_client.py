"""The `ollama` client, as everyone uses it, against a real server."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from typing import Any, cast

import httpx
import ollama
import pytest

from tests.live.server import PATIENCE, Server

MODEL = "any-name:latest"
MESSAGES = [{"role": "user", "content": "Write a function."}]
GREEDY: dict[str, Any] = {"temperature": 0, "num_predict": 20}
LONG: dict[str, Any] = {"temperature": 0, "num_predict": 4000}  # greedily it meets no end


@pytest.fixture
def client(four_slots: Server) -> Iterator[ollama.Client]:
    with ollama.Client(four_slots.url, timeout=PATIENCE) as client:
        yield client
    four_slots.wait_idle()


def test_the_model(client: ollama.Client) -> None:
    (listed,) = client.list().models
    (loaded,) = client.ps().models
    assert listed.model == loaded.model == "cede-embedded:latest"
    assert listed.digest == loaded.digest
    assert listed.digest is not None
    assert len(listed.digest) == 64
    shown = client.show("cede-embedded")
    assert shown.capabilities is not None
    assert "completion" in shown.capabilities
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "qwen3"
    assert loaded.context_length is not None
    assert loaded.context_length <= shown.modelinfo["qwen3.context_length"]


def test_a_stream_says_the_same_as_a_whole_answer(client: ollama.Client) -> None:
    whole = client.chat(MODEL, MESSAGES, options=GREEDY)
    *parts, last = client.chat(MODEL, MESSAGES, options=GREEDY, stream=True)
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert not any(part.done for part in parts)
    assert (last.done, last.done_reason, last.model) == (True, whole.done_reason, MODEL)
    assert last.eval_count == whole.eval_count
    assert last.prompt_eval_count == whole.prompt_eval_count
    assert last.total_duration is not None
    assert last.load_duration is not None
    assert last.total_duration >= last.load_duration >= 0


async def test_the_asynchronous_client(four_slots: Server) -> None:
    async with ollama.AsyncClient(four_slots.url, timeout=PATIENCE) as client:
        whole = await client.generate(MODEL, "Write a function.", options=GREEDY)
        text = ""
        async for part in await client.generate(MODEL, "Write a function.", options=GREEDY, stream=True):
            text += part.response or ""
    assert text == whole.response


def test_a_text_goes_on_from_its_context(client: ollama.Client) -> None:
    first = client.generate(MODEL, "Write a function.", options=GREEDY)
    assert first.context is not None
    again = client.generate(MODEL, "Another.", context=first.context, options=GREEDY)
    assert again.prompt_eval_count is not None
    assert again.prompt_eval_count > len(first.context)
    assert again.context is not None
    assert list(again.context[: len(first.context)]) == list(first.context)


def test_a_raw_prompt_with_log_probabilities(client: ollama.Client) -> None:
    answer = client.generate(MODEL, "def add(", raw=True, logprobs=True, top_logprobs=2, options=GREEDY)
    assert answer.context is None
    assert answer.logprobs is not None
    assert len(answer.logprobs) == answer.eval_count
    for drawn in answer.logprobs:
        assert drawn.top_logprobs is not None
        assert drawn.logprob == drawn.top_logprobs[0].logprob <= 0


SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["add", "sub"]}, "arguments": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["name", "arguments"],
    "additionalProperties": False,
}


def test_an_answer_of_a_schema_whole_and_in_parts(client: ollama.Client) -> None:
    whole = client.chat(MODEL, MESSAGES, format=SCHEMA, options=GREEDY | {"num_predict": 200})
    answer = json.loads(whole.message.content or "")
    assert answer["name"] in ("add", "sub")
    assert answer["arguments"] in (1, 2, 3)
    assert whole.done_reason == "stop"
    parts = client.chat(MODEL, MESSAGES, format=SCHEMA, options=GREEDY | {"num_predict": 200}, stream=True)
    assert "".join(part.message.content or "" for part in parts) == whole.message.content


@pytest.mark.parametrize("raw", [False, True])
def test_a_prompt_s_answer_of_a_schema(client: ollama.Client, raw: bool) -> None:
    answer = client.generate(MODEL, "def add(", raw=raw, format=SCHEMA, options=GREEDY | {"num_predict": 200})
    assert json.loads(answer.response or "").keys() == {"name", "arguments"}


def test_an_answer_that_is_any_json_object(client: ollama.Client) -> None:
    """A model that writes Python may go on until its limit: what there is then is the beginning of an object."""
    answer = client.generate(MODEL, "def add(", raw=True, format="json", options=GREEDY)
    assert (answer.response or "").lstrip().startswith("{")


def test_a_stream_that_is_closed_midway_frees_its_slot(client: ollama.Client, four_slots: Server) -> None:
    stream = client.generate(MODEL, "def add(", raw=True, options=LONG, stream=True)
    next(stream)
    (request_id,) = four_slots.requests()
    cast("Generator[ollama.GenerateResponse]", stream).close()
    (receipt,) = four_slots.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    four_slots.wait_idle()


def test_an_answer_that_nobody_waits_for_frees_its_slot(four_slots: Server) -> None:
    """A prompt of which the client does not even see the first token."""
    with ollama.Client(four_slots.url, timeout=0.01) as impatient, pytest.raises(httpx.TimeoutException):
        impatient.generate(MODEL, "def f(x):\n    return x\n" * 60, raw=True, options=LONG)
    four_slots.wait_idle()


def test_errors_are_the_client_s_own(client: ollama.Client) -> None:
    def refused(call: Any) -> ollama.ResponseError:  # noqa: ANN401
        with pytest.raises(ollama.ResponseError) as error:
            call()
        return error.value

    assert refused(lambda: client.show("no-such-model")).status_code == 404
    assert (
        "repeat_last_n"
        in refused(lambda: client.generate(MODEL, "x", options={"repeat_last_n": 3, "repeat_penalty": 2.0})).error
    )
    assert '"if"' in refused(lambda: client.chat(MODEL, MESSAGES, format={"if": {}})).error
    assert "cede pull" in refused(lambda: client.pull("llama3")).error
    assert "cede pull" in refused(lambda: list(client.pull("llama3", stream=True))).error
    assert "context length" in refused(lambda: list(client.chat(MODEL, MESSAGES * 2000, stream=True))).error
