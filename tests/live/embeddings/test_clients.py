"""Embeddings and the scores of prompts, with the clients that ask for them, against a real server."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import ollama
import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from runtime.store.resolve import resolve_model
from tests.live.fork_server import ForkedServer
from tests.live.http_client import prompt
from tests.live.server import PATIENCE, Server, wait_for

MODEL = "any-name"
TEXTS = ["import os\n", "def add(a, b):\n    return a + b\n"]
CLOSE = 1e-3  # of a cosine, from weights that the server keeps in another form


@pytest.fixture
def client(four_slots: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=four_slots.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE) as client:
        yield client
    four_slots.wait_idle()


@pytest.fixture(scope="module")
def reference() -> Any:  # noqa: ANN401
    """Transformers' model of what the server serves."""
    return AutoModelForCausalLM.from_pretrained(resolve_model(None), dtype=torch.float32)


def ids_of(client: openai.OpenAI, text: str) -> list[int]:
    ids: list[int] = client.post("/../tokenize", cast_to=object, body={"content": text, "add_special": True})["tokens"]  # type: ignore[index]
    return ids


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    return sum(x * y for x, y in zip(a, b, strict=True)) > 1 - CLOSE


@torch.inference_mode()
def mean_state(reference: Any, ids: list[int]) -> list[float]:  # noqa: ANN401
    mean = reference.model(torch.tensor([ids])).last_hidden_state[0].mean(0)
    vector: list[float] = (mean / mean.norm()).tolist()
    return vector


def test_openai_embeddings_are_the_means_of_transformers(client: openai.OpenAI, reference: Any) -> None:  # noqa: ANN401
    """Its client asks for base64 unless told otherwise."""
    answer = client.embeddings.create(model=MODEL, input=TEXTS)
    ids = [ids_of(client, text) for text in TEXTS]
    assert [one.index for one in answer.data] == [0, 1]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, ids))
    for one, tokens in zip(answer.data, ids, strict=True):
        assert math.hypot(*one.embedding) == pytest.approx(1, abs=1e-5)
        assert close(one.embedding, mean_state(reference, tokens))


def test_what_is_cached_changes_no_vector(client: openai.OpenAI) -> None:
    """The prompt lies in a slot from a completion; its mean is made of all rows even so."""
    ids = prompt(200, 5)
    first = client.embeddings.create(model=MODEL, input=ids).data[0].embedding
    client.completions.create(model=MODEL, prompt=ids, max_tokens=2)
    again = client.embeddings.create(model=MODEL, input=ids).data[0].embedding
    assert close(first, again)


def test_the_listing_says_how_states_are_pooled(four_slots: Server) -> None:
    (model,) = httpx.get(four_slots.url + "/v1/models", timeout=PATIENCE).json()["data"]
    body = {"input": "a"}
    answer = httpx.post(four_slots.url + "/v1/embeddings", json=body, timeout=PATIENCE).json()
    assert model["pooling"] == answer["cede"]["pooling"] == "mean"


def test_ollama_embeddings(client: openai.OpenAI, four_slots: Server) -> None:
    expected = [one.embedding for one in client.embeddings.create(model=MODEL, input=TEXTS).data]
    with ollama.Client(four_slots.url, timeout=PATIENCE) as theirs:
        answer = theirs.embed("any", TEXTS)
        old = list(theirs.embeddings("any", TEXTS[0]).embedding)
        capabilities = theirs.show("cede-embedded").capabilities or ()
    assert all(close(a, b) for a, b in zip(answer.embeddings, expected, strict=True))
    assert answer.prompt_eval_count == sum(len(ids_of(client, text)) for text in TEXTS)
    length = math.hypot(*old)
    assert length != pytest.approx(1, abs=1e-3)  # the older endpoint does not normalise
    assert close([number / length for number in old], expected[0])
    assert "embedding" in capabilities


def test_langchain_sends_token_ids(client: openai.OpenAI, four_slots: Server) -> None:
    if find_spec("langchain_openai") is None or find_spec("tiktoken") is None:
        pytest.skip("langchain_openai is not installed")
    script = Path(__file__).parent / "langchain_embeddings.py"
    done = subprocess.run(
        [sys.executable, str(script), four_slots.url], capture_output=True, timeout=PATIENCE, check=True
    )
    first, second, query = json.loads(done.stdout)
    for vector, text in ((first, "import os"), (second, "def add(a, b):"), (query, "import os")):
        expected = client.embeddings.create(model=MODEL, input=[[*text.encode()]]).data[0].embedding
        assert close(vector, expected)


def test_a_hang_up_in_a_large_batch_frees_all_slots(four_slots: ForkedServer) -> None:
    """What runs of it is cancelled, each input with a receipt; what was not begun never begins."""
    body = json.dumps({"input": [prompt(900, number) for number in range(100)]}).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    # Held, or those that were found may have ended before the client leaves, and others have their slots.
    with four_slots.held(), socket.create_connection(four_slots.address) as connection:
        connection.sendall(head.encode() + body)

        def running() -> str:
            return next((name for name in four_slots.requests() if name.startswith("embd-")), "")

        name = wait_for(running, "the batch")
    receipts = four_slots.wait_ended(name)
    assert len(receipts) in range(1, 5)
    assert {receipt["reason"] for receipt in receipts} == {"client_disconnect"}
    assert all(receipt["slot_freed_at"] is not None for receipt in receipts)
    four_slots.wait_idle()
    batch = name[: len("embd-") + 32]
    newest = four_slots.get("/v1/receipts?limit=1024")["data"]
    assert {receipt["request_id"] for receipt in newest if receipt["request_id"].startswith(batch)} == {name}


# --- scores of prompts ------------------------------------------------------------------------------------------------


@torch.inference_mode()
def logprobs_of(reference: Any, ids: list[int]) -> torch.Tensor:  # noqa: ANN401
    """`[tokens, vocab]`."""
    rows: torch.Tensor = reference(torch.tensor([ids])).logits[0].log_softmax(-1)
    return rows


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_what_lm_evaluation_harness_asks_for(client: openai.OpenAI, reference: Any, max_tokens: int) -> None:  # noqa: ANN401
    """Ids of context and continuation, `echo`, `logprobs` 1: how likely it is, and whether greedy decoding says so."""
    pairs = [(ids_of(client, "import os\nimport "), ids_of(client, "sys")), (ids_of(client, "def f(x"), [58, 63])]
    answer = client.completions.create(
        model=MODEL,
        prompt=[context + continuation for context, continuation in pairs],
        max_tokens=max_tokens,
        logprobs=1,
        echo=True,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    for choice, (context, continuation) in zip(answer.choices, pairs, strict=True):
        logprobs, rows = choice.logprobs, logprobs_of(reference, context + continuation)
        assert logprobs is not None
        assert logprobs.token_logprobs is not None
        assert logprobs.top_logprobs is not None
        assert len(logprobs.token_logprobs) == len(logprobs.tokens or ()) == len(context + continuation) + max_tokens
        nothing: list[object] = [logprobs.token_logprobs[0], logprobs.top_logprobs[0]]
        assert nothing == [None, None]
        end = len(context + continuation)
        own = logprobs.token_logprobs[len(context) : end]
        top = logprobs.top_logprobs[len(context) : end]
        expected = [rows[len(context) - 1 + i, token].item() for i, token in enumerate(continuation)]
        assert own == pytest.approx(expected, abs=0.2)  # from weights that the server keeps in another form
        greedy = all(score == max(likely.values()) for score, likely in zip(own, top, strict=True))
        assert greedy == all(rows[len(context) - 1 + i].argmax() == token for i, token in enumerate(continuation))


def test_an_echoed_stream_has_the_same_scores(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": TEXTS[1] * 12, "max_tokens": 4, "logprobs": 2, "echo": True}
    asked |= {"temperature": 0, "extra_body": {"ignore_eos": True}}
    whole = client.completions.create(**asked).choices[0]
    chunks = [choice for chunk in client.completions.create(**asked, stream=True) for choice in chunk.choices]
    parts = [chunk.logprobs for chunk in chunks if chunk.logprobs is not None]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.logprobs is not None
    for field in ("tokens", "text_offset"):
        assert [value for part in parts for value in getattr(part, field)] == getattr(whole.logprobs, field)
    first, *scores = [score for part in parts for score in part.token_logprobs or ()]
    assert first is None
    assert scores == pytest.approx((whole.logprobs.token_logprobs or ())[1:], abs=0.1)


def test_prompt_logprobs_of_a_chat_and_of_a_completion(client: openai.OpenAI) -> None:
    more: dict[str, Any] = {"prompt_logprobs": 2, "return_token_ids": True}
    text = client.completions.create(model=MODEL, prompt=TEXTS[1], max_tokens=1, extra_body=more)
    chat = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=1, extra_body=more
    )
    in_choice: Any = text.choices[0]
    in_envelope: Any = chat
    for shown in (in_choice, in_envelope):
        first, *rest = shown.prompt_logprobs
        assert first is None
        assert len(rest) == len(shown.prompt_token_ids) - 1
        for token_id, entries in zip(shown.prompt_token_ids[1:], rest, strict=True):
            own = entries[str(token_id)]
            assert own["rank"] >= 1
            assert own["logprob"] <= 0
            assert len(entries) == (2 if own["rank"] <= 2 else 3)


def test_the_tokenizer_is_that_of_the_reference(client: openai.OpenAI) -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve_model(None))
    assert ids_of(client, TEXTS[1]) == tokenizer(TEXTS[1])["input_ids"]
