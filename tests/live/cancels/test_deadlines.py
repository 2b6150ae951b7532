"""Deadlines and the queue's patience, on a real server."""

from __future__ import annotations

import pytest

from tests.live.cancels.victims import OURS, SHORT, error_told
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import Server, stage, wait_for

# --- deadlines ------------------------------------------------------------------------------------------------------


def test_a_deadline_ends_a_stream_that_decodes(hurried: Server) -> None:
    """And those of its choices that still wait."""
    with Http1(hurried, completion([SHORT] * 3, 4000)) as client:
        tokens = client.read_all()
        receipts = hurried.wait_ended(client.id)
    assert [receipt["reason"] for receipt in receipts] == ["deadline"] * 3
    assert sorted(stage(receipt["phase"]) for receipt in receipts) == ["decode", "queued", "queued"]
    assert client.errors, "two choices got no token, and that is an error"
    assert client.errors[0]["code"] == "deadline_exceeded"
    assert 1 <= len(tokens) <= 4000
    hurried.wait_idle()


def test_a_deadline_in_the_middle_of_a_sentence_is_told(hurried: Server) -> None:
    with Http1(hurried, completion(SHORT, 4000)) as client:
        client.read_all()
        (receipt,) = hurried.wait_ended(client.id)
    assert (receipt["reason"], stage(receipt["phase"])) == ("deadline", "decode")
    assert client.cancelled == "deadline"
    assert client.done


@pytest.mark.parametrize("stream", [True, False])
def test_a_deadline_before_the_first_token_is_an_error(hurried: Server, stream: bool) -> None:
    """Sixteen long prompts in slices of 16 tokens: no machine reads them in two seconds."""
    prompts = [prompt(4000, seed=seed) for seed in range(40 + 20 * stream, 56 + 20 * stream)]
    with Http1(hurried, completion(prompts, 1, stream=stream, cache_prompt=False)) as client:
        (request_id,) = wait_for(hurried.requests, "the request")
        told = error_told(client, stream, 504)
    assert told["code"] == "deadline_exceeded"
    receipts = hurried.wait_ended(request_id)
    assert {receipt["reason"] for receipt in receipts} == {"deadline"}
    assert {stage(receipt["phase"]) for receipt in receipts} == {"prefill", "queued"}
    for receipt in receipts:
        assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
        assert receipt["layers_after_cancel"] <= 1
    hurried.wait_idle()


# --- the queue's patience -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_who_has_waited_long_enough_is_told_to_come_back(impatient: Server, stream: bool) -> None:
    with Http1(impatient, completion(OURS, 4000)) as neighbour:
        neighbour.read_tokens(1)
        with Http1(impatient, completion(SHORT, 4, stream=stream)) as client:
            (request_id,) = wait_for(lambda: impatient.requests().keys() - {neighbour.id}, "the request")
            told = error_told(client, stream, 503, retry_after="1")
        assert told["code"] == "queue_timeout"
        (receipt,) = impatient.wait_ended(request_id)
        assert (receipt["reason"], receipt["phase"], receipt["computed_tokens"]) == ("queue_timeout", "queued", 0)
        neighbour.read_tokens(len(neighbour.tokens) + 5)
    impatient.wait_idle()
