"""Recorded layers against the same layers as they are, step by step, in hidden states and KV.

There is no GPU here: Triton's interpreter runs the kernels, and what is recorded is simply done again.
"""

from __future__ import annotations

import pytest
import torch

from runtime.devices.single_rows import rows
from runtime.nn.layers import recorded
from tests.fakes.devices.cuda import InterpretedCapture
from tests.models.layers.few_rows import MODELS, STEPS, check_kv, drop_between_layers, pair, read_prompts
from tests.models.layers.native_models import CONTEXT, GEMMA3N, GEMMA4, LLAMA, QWEN3, difference, run, segments_of
from tests.models.step_driver import pages_of

EXPERTS = LLAMA | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
RECORDED = MODELS | {"gemma4": GEMMA4, "gemma3n": GEMMA3N}
SIZES = (1, 4)


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> InterpretedCapture:
    """With fewer sizes and splits, for the interpreter is slow."""
    monkeypatch.setattr(recorded, "SIZES", SIZES)
    monkeypatch.setattr(rows, "PROGRAMS", 8)
    return InterpretedCapture()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_layers_are_what_they_were_recorded_of(capture: InterpretedCapture, name: str) -> None:
    plain, model = pair(RECORDED[name], capture=capture)
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
    plain, model = pair(QWEN3, capture=capture)
    with torch.inference_mode():
        lengths = read_prompts(plain, model)
        segments, (reference, own) = drop_between_layers((plain, model), {0: 1, 1: 2, 2: 1}, lengths, [0, 2])
        assert difference(own.hidden, reference.hidden) < 1e-5
        check_kv(plain, model, [segments[0], segments[2]])


def test_a_number_that_is_none_spoils_its_own_sequence_alone(capture: InterpretedCapture) -> None:
    _, model = pair(LLAMA, capture=capture)
    with torch.inference_mode():
        lengths = read_prompts(model)
        model.kv.read(0, 1, 3, 4, pages_of(1, CONTEXT))[0].fill_(torch.nan)
        spoilt = run(model, segments_of({0: 2, 1: 1}, lengths)).hidden.isfinite().all(-1)
        assert spoilt.tolist() == [True, True, False]
        # The rows behind the next step's own hold what is left of this one's.
        assert run(model, segments_of({0: 1, 2: 1}, lengths)).hidden.isfinite().all()


def test_a_layer_that_reads_from_the_device_is_run_as_it_is(
    capture: InterpretedCapture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    plain, model = pair(EXPERTS, capture=capture)
    assert not capture.done
    assert "not recorded: 2 layers: latent attention, recurrence, or experts" in caplog.messages
    with torch.inference_mode():
        segments = segments_of({0: 1}, read_prompts(plain, model))
        assert torch.equal(run(model, segments).hidden, run(plain, segments).hidden)


def test_a_layer_that_cannot_be_recorded_is_run_as_it_is(
    capture: InterpretedCapture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    capture.refused_from = len(SIZES) + 1  # all of the first layer, and a part of the second
    plain, model = pair(LLAMA, capture=capture)
    assert "not recorded: 1 layer: the stream is capturing" in caplog.messages
    capture.done.clear()
    with torch.inference_mode():
        segments = segments_of({0: 1}, read_prompts(plain, model))
        assert difference(run(model, segments).hidden, run(plain, segments).hidden) < 1e-5
    assert len(capture.done) == 1
