"""Distances from what llama.cpp's server answers, which is a few tokens of each distribution."""

from __future__ import annotations

import json
from itertools import pairwise

import httpx
import pytest
import torch
import torch.nn.functional as F

from bench.engine.llama_server import TopTokens, ask_top_tokens

VOCAB = 50


def some_scores(seed: int) -> torch.Tensor:
    return 2 * torch.randn(6, VOCAB, generator=torch.Generator().manual_seed(seed))


def top_of(scores: torch.Tensor, count: int) -> TopTokens:
    top = scores.log_softmax(-1).topk(count)
    return TopTokens(top.indices, top.values)


def divergence(full: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return F.kl_div(other.log_softmax(-1), full.log_softmax(-1), reduction="none", log_target=True).sum(-1)


def test_over_all_tokens_the_divergence_is_the_whole() -> None:
    full, other = some_scores(0), some_scores(1)
    found = top_of(other, VOCAB).divergence(full)
    torch.testing.assert_close(found.float(), divergence(full, other), atol=1e-4, rtol=1e-4)


def test_over_some_tokens_it_is_less_and_never_below_zero() -> None:
    full, other = some_scores(0), some_scores(1)
    by_count = [top_of(other, count).divergence(full) for count in (1, 5, 20, VOCAB)]
    for fewer, more in pairwise(by_count):
        assert (fewer >= -1e-9).all()
        assert (fewer <= more + 1e-6).all()


def test_equal_distributions_are_no_distance_apart() -> None:
    full = some_scores(0)
    assert top_of(full, 10).divergence(full).abs().max() < 1e-6


def test_scores_are_compared_over_the_same_tokens_as_the_servers() -> None:
    full, other = some_scores(0), some_scores(1)
    top = top_of(other, 10)
    torch.testing.assert_close(top.divergence_of(full, other), top.divergence(full), atol=1e-6, rtol=1e-6)
    assert top.divergence_of(full, full).abs().max() < 1e-9


def test_each_beginning_of_the_text_is_asked_for() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        asked.append((request.url.path, body["prompt"], body["n_probs"], body["n_predict"]))
        top = [{"id": len(body["prompt"]), "token": "a", "logprob": -0.5}, {"id": 9, "token": "b", "logprob": -1.0}]
        return httpx.Response(200, json={"completion_probabilities": [{"id": 1, "top_logprobs": top}]})

    with httpx.Client(base_url="http://127.0.0.1:1", transport=httpx.MockTransport(answer)) as client:
        top = ask_top_tokens(client, [7, 8, 5], 2)
    assert asked == [("/completion", prompt, 2, 1) for prompt in ([7], [7, 8], [7, 8, 5])]
    assert top.ids.tolist() == [[1, 9], [2, 9], [3, 9]]
    assert top.logprobs[:, 0].tolist() == [-0.5] * 3


def test_a_server_that_refuses_is_an_error() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(400))
    with httpx.Client(base_url="http://127.0.0.1:1", transport=transport) as client, pytest.raises(httpx.HTTPError):
        ask_top_tokens(client, [7], 2)
