"""The distance between two forms of a model is that of their distributions, and is seen where there is one."""

from __future__ import annotations

import math

import pytest
import torch

from bench.engine.accuracy import FULL, compare, distance, open_form, scores, server_line
from bench.engine.llama_server import TopTokens
from runtime.store.resolve import resolve_model
from tests.models.step_driver import random_tokens


def test_the_divergence_is_that_of_the_distributions() -> None:
    full = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]]).log()
    other = torch.tensor([[0.25, 0.5, 0.25], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]]).log()
    found = distance(full, other + 3, torch.tensor([0, 0, 2]))  # what is added to all scores means nothing
    double = math.log(2)
    torch.testing.assert_close(found.divergence, torch.tensor([0.25 * double, 0, 0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(found.added, torch.tensor([double, 0, 0]), atol=1e-6, rtol=0)
    assert found.agreed.tolist() == [False, True, True]


@torch.inference_mode()
def test_fewer_bits_are_farther_off() -> None:
    folder = resolve_model(None)
    pieces = [random_tokens(24, below=4096, seed=seed) for seed in range(2)]
    full = open_form(folder, FULL, FULL, 24)
    means = {}
    for form in (FULL, "int8", "int4"):
        found = compare(full, open_form(folder, form, FULL, 24), pieces)
        assert found.divergence.shape == found.agreed.shape == found.added.shape == (2 * 23,)
        means[form] = found.divergence.mean().item()
    assert means[FULL] == pytest.approx(0, abs=1e-9)
    assert 0 < means["int8"] < means["int4"] / 3
    assert means["int4"] < 0.1


@torch.inference_mode()
def test_beside_a_server_forms_are_compared_over_its_tokens_too() -> None:
    """Here the server's answers are the full model's own."""
    folder = resolve_model(None)
    pieces = [random_tokens(24, below=4096, seed=seed) for seed in range(2)]
    full, rough = open_form(folder, FULL, FULL, 24), open_form(folder, "int4", FULL, 24)
    tops = []
    for piece in pieces:
        top = scores(full, piece)[:-1].log_softmax(-1).topk(200)
        tops.append(TopTokens(top.indices, top.values))
    found = compare(full, rough, pieces, tops)
    assert found.listed is not None
    assert 0 < found.listed.mean() < found.divergence.mean()
    assert "KL over the server's tokens" in str(found)
    assert "KL over its 200 tokens 0.00000 nats; same first token 100.00 %" in server_line(full, pieces, tops)
