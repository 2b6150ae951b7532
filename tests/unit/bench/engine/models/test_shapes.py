"""Shapes of published models, with random weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.engine.models.shapes import SHAPES, random_model, shape
from tests.models.step_driver import CPU, Running, generate


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_one_that_cede_computes(name: str) -> None:
    config = shape(name)
    assert config.num_layers == SHAPES[name]["num_hidden_layers"]
    assert config.hidden_size == SHAPES[name]["hidden_size"]


def test_a_model_of_random_weights_runs_and_is_the_same_again() -> None:
    whole = shape("smollm2-135m")
    config = replace(whole, num_layers=2, ropes=whole.ropes[:2], window=whole.window[:2], experts=whole.experts[:2])
    first, second = (random_model(config, slots=1, context=16, device=CPU, dtype=torch.bfloat16) for _ in range(2))
    assert generate(first, [Running(0, [1, 2, 3])], 4) == generate(second, [Running(0, [1, 2, 3])], 4)
