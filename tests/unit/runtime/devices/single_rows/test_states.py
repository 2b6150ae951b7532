"""Recurrent layers of few rows in one launch each, by Metal's kernels compiled as C++, beside PyTorch's operations."""

from __future__ import annotations

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.mps.states import compile_states
from runtime.devices.single_rows.rows import MOST_ROWS_OF_ONE
from runtime.devices.single_rows.states import state_numbers
from runtime.kv.states import StateBuffers
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.fakes.devices.metal.compiled import Shim
from tests.models.layers.few_rows import drop_between_layers, pair, read_prompts
from tests.models.layers.native_models import (
    CONTEXT,
    CPU,
    GRANITE_HYBRID,
    LFM2,
    QWEN3_5,
    difference,
    run,
    segments_of,
    states_left,
)
from tests.models.step_driver import pages_of

SMALL = {"linear_key_head_dim": 36, "mamba_n_heads": 4, "mamba_expand": 1, "hidden_size": 64}
MODELS = {"lfm2": LFM2, "qwen3.5": QWEN3_5 | SMALL, "granite hybrid": GRANITE_HYBRID | SMALL}
LAUNCHED = {
    "lfm2": ["convolve_rows"],
    "qwen3.5": ["convolve_rows", "delta_rows"],
    "granite hybrid": ["convolve_rows", "state_space_rows"],
}


@pytest.fixture
def models(
    request: pytest.FixtureRequest, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> tuple[Transformer, Transformer]:
    """A model as it is, and one with the kernels."""
    settings = MODELS[request.param]
    monkeypatch.setattr(torch.mps, "compile_shader", shim)
    config = parse_config({key: value for key, value in settings.items() if value is not None})
    return pair(settings, state_kernels=compile_states(config, torch.float32))


def verifying(slot: int, start: int, *tokens: int) -> Segment:
    """A token, and drafts behind it, each of which leaves a state."""
    sample = SampleSpec(SamplingParams(temperature=0), start + 1, 0)
    drafts = [DraftToken(one) for one in tokens[1:]]
    return Segment(slot, start, tokens, sample=sample, drafts=drafts, pages=pages_of(slot, CONTEXT))


def test_the_numbers_of_a_table() -> None:
    buffers = StateBuffers(parse_config(MODELS["qwen3.5"]), count=9, device=CPU, dtype=torch.float32)
    segments = [
        Segment(0, 5, [1], state=4, next_states=((1, 2),)),
        Segment(1, 0, [1, 1, 1], next_states=((1, 3), (3, 5))),
        Segment(2, 7, [1], state=4),
    ]
    assert state_numbers(segments, buffers) == [0, 1, 4, 5, *(4, 9, 4), *(2, 3, -1, 5, -1)]


@pytest.mark.parametrize("models", MODELS, indirect=True)
def test_steps_are_what_pytorch_makes_of_them(
    request: pytest.FixtureRequest, shim: Shim, models: tuple[Transformer, Transformer]
) -> None:
    """Several sequences, of which some verify drafts; from states that either of both has left."""
    plain, model = models
    with torch.inference_mode():
        lengths = read_prompts(*models)
        shim.launched.clear()
        steps = [
            segments_of({0: 1, 1: 1, 2: 1, 3: 1}, lengths),
            [verifying(0, lengths[0], 5, 6, 7), *segments_of({1: 1}, lengths)],
            [verifying(0, lengths[0] + 1, 8)],
        ]
        for step in steps:
            assert difference(run(model, step).hidden, run(plain, step).hidden) < 1e-5
            for own, reference in zip(states_left(model, step), states_left(plain, step), strict=True):
                assert difference(own, reference) < 1e-5
    name = request.node.callspec.params["models"]
    assert shim.launched == LAUNCHED[name] * len(steps)


@pytest.mark.parametrize("models", ["qwen3.5"], indirect=True)
def test_who_leaves_between_two_layers_takes_its_rows_along(models: tuple[Transformer, Transformer]) -> None:
    with torch.inference_mode():
        lengths = read_prompts(*models)
        _, (reference, own) = drop_between_layers(models, {0: 1, 1: 2, 2: 1}, lengths, [0, 2])
        assert own.states is not None
        assert own.states.sequences == 2
        assert difference(own.hidden, reference.hidden) < 1e-5


@pytest.mark.parametrize("models", ["granite hybrid"], indirect=True)
def test_a_prompt_is_computed_by_pytorch(shim: Shim, models: tuple[Transformer, Transformer]) -> None:
    _, model = models
    shim.launched.clear()
    with torch.inference_mode():
        run(model, segments_of({0: MOST_ROWS_OF_ONE + 1, 1: 1}, {}))
    assert not shim.launched
