"""Recorded layers against the same layers as they are, step by step, in hidden states and KV.

There is no GPU here: Triton's interpreter runs the kernels, and what is recorded is simply done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.nn.layers import recorded
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.weights import build_weights
from runtime.single_rows import rows
from tests.fakes.devices.cuda import InterpretedCapture
from tests.models.layers.native_models import (
    CONTEXT,
    CPU,
    GEMMA3,
    GRANITE,
    LLAMA,
    MISTRAL,
    QWEN2,
    QWEN3,
    Drawn,
    difference,
    kv_of,
    run,
    segments_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.step.step import Segment

TINY = {"intermediate_size": 96}
GEMMA2 = GEMMA3 | {  # scores that are capped
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 30.0,
}
MODELS = {
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "granite": GRANITE,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "mistral": MISTRAL,
}
EXPERTS = LLAMA | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
SIZES = (1, 4)
PROMPTS = {0: 16, 1: 13, 2: 9}
STEPS: list[dict[int, int]] = [{0: 1}, {0: 1, 1: 1, 2: 1}, {1: 4}, {0: 2, 2: 1, 3: 1}]


def pair(settings: dict[str, Any], capture: InterpretedCapture) -> tuple[Transformer, Transformer]:
    """Two models of the same weights: as it is, and recorded."""
    config = parse_config({name: value for name, value in (settings | TINY).items() if value is not None})
    formats = choose_formats(Quantization.NONE, CPU, torch.float32)
    weights = build_weights(Drawn(CPU, torch.float32, 1, formats), config)
    return (
        Transformer(config, weights, kv_of(config, torch.float32)),
        Transformer(config, weights, kv_of(config, torch.float32), capture=capture),
    )


def read_prompts(*models: Transformer) -> dict[int, int]:
    """Read a prompt into each of three slots; returns their lengths."""
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    for slot, count in PROMPTS.items():
        segments = segments_of({slot: count}, lengths)
        for model in models:
            run(model, segments)
    return lengths


def check_kv(first: Transformer, second: Transformer, segments: Sequence[Segment]) -> None:
    """What the next rows of these sequences see is the same in both models."""
    for segment in segments:
        for layer in range(first.num_layers):
            seen = first.config.window[layer]
            start = 0 if seen is None else max(0, segment.end - seen)
            one, other = (
                model.kv.read(layer, segment.slot, start, segment.end, segment.origin) for model in (first, second)
            )
            assert max(difference(mine, theirs) for mine, theirs in zip(one, other, strict=True)) < 1e-5


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> InterpretedCapture:
    """With fewer sizes and splits, for the interpreter is slow."""
    monkeypatch.setattr(recorded, "SIZES", SIZES)
    monkeypatch.setattr(rows, "PROGRAMS", 8)
    return InterpretedCapture()


@pytest.mark.parametrize("name", MODELS)
def test_recorded_layers_are_what_they_were_recorded_of(capture: InterpretedCapture, name: str) -> None:
    plain, model = pair(MODELS[name], capture)
    assert len(capture.done) == len(SIZES) * plain.num_layers
    with torch.inference_mode():
        capture.done.clear()
        lengths = read_prompts(plain, model)
        assert not capture.done, "prompts have more rows than what was recorded"
        for step in STEPS:
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(model, segments)
            assert len(capture.done) == plain.num_layers
            assert difference(own.hidden, reference.hidden) < 1e-5, step
            check_kv(plain, model, segments)
            capture.done.clear()


def test_who_leaves_between_two_layers_takes_its_rows_along(capture: InterpretedCapture) -> None:
    plain, model = pair(QWEN3, capture)
    with torch.inference_mode():
        segments = segments_of({0: 1, 1: 2, 2: 1}, read_prompts(plain, model))
        batches = [(plain, plain.begin(segments)), (model, model.begin(segments))]
        for one, batch in batches:
            one.run_layer(batch, 0)
            one.shrink(batch, [0, 2])
            one.run_layer(batch, 1)
        (_, reference), (_, own) = batches
        assert difference(own.hidden, reference.hidden) < 1e-5
        check_kv(plain, model, [segments[0], segments[2]])


def test_a_number_that_is_none_spoils_its_own_sequence_alone(capture: InterpretedCapture) -> None:
    _, model = pair(LLAMA, capture)
    with torch.inference_mode():
        lengths = read_prompts(model)
        model.kv.read(0, 1, 3, 4, CONTEXT)[0].fill_(torch.nan)
        spoilt = run(model, segments_of({0: 2, 1: 1}, lengths)).hidden.isfinite().all(-1)
        assert spoilt.tolist() == [True, True, False]
        # The rows behind the next step's own hold what is left of this one's.
        assert run(model, segments_of({0: 1, 2: 1}, lengths)).hidden.isfinite().all()


def test_a_layer_that_reads_from_the_device_is_run_as_it_is(
    capture: InterpretedCapture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    plain, model = pair(EXPERTS, capture)
    assert not capture.done
    assert "2 layers are not recorded: latent attention, or experts" in caplog.messages
    with torch.inference_mode():
        segments = segments_of({0: 1}, read_prompts(plain, model))
        assert torch.equal(run(model, segments).hidden, run(plain, segments).hidden)


def test_a_layer_that_cannot_be_recorded_is_run_as_it_is(
    capture: InterpretedCapture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    capture.refused_from = len(SIZES) + 1  # all of the first layer, and a part of the second
    plain, model = pair(LLAMA, capture)
    assert "1 layers are not recorded: the stream is capturing" in caplog.messages
    capture.done.clear()
    with torch.inference_mode():
        segments = segments_of({0: 1}, read_prompts(plain, model))
        assert difference(run(model, segments).hidden, run(plain, segments).hidden) < 1e-5
    assert len(capture.done) == 1
