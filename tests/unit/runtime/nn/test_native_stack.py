"""Several layers in one call of the kernels: what each by itself would have made, up to a cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.devices.native.structures import MOST_ROWS
from runtime.nn import native_stack
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.step.step import Segment
from tests.models.layers.native_models import (
    CPU,
    GEMMA3,
    GRANITE_HYBRID,
    LFM2,
    LLAMA,
    MINISTRAL3,
    QWEN3,
    QWEN3_5,
    SMOLLM3,
    both,
    run,
    segments_of,
    states_left,
)
from tests.models.step_driver import with_states

if TYPE_CHECKING:
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.model import Transformer

SIX = {"num_hidden_layers": 6}
SLIDING = ["sliding_attention"] * 2 + ["full_attention"]
# Of each, and how many layers are run in one call from the first on.
MODELS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "llama": (LLAMA | SIX, [6]),
    "qwen3": (QWEN3 | SIX, [6]),
    "windows in all layers": (MINISTRAL3 | SIX, [6]),
    "windows in some": (GEMMA3 | SIX | {"layer_types": SLIDING * 2}, [2, 1, 2, 1]),
    "convolutions in some": (LFM2 | SIX | {"layer_types": ["conv", "conv", "full_attention"] * 2}, [6]),
    "the gated delta rule in some": (
        QWEN3_5 | SIX | {"layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2},
        [6],
    ),
    "Mamba 2 in some": (GRANITE_HYBRID | SIX | {"layer_types": ["mamba", "mamba", "attention"] * 2}, [6]),
    "no rotation in some": (SMOLLM3 | SIX | {"no_rope_layers": [1, 1, 0] * 2}, [2, 1, 2, 1]),
}
PROMPTS = {0: 20, 1: 7, 2: 30}
STEPS: list[dict[int, int]] = [{0: 1, 1: 1, 2: 1}, {1: 5, 2: 1}, {0: 9, 1: 9, 2: 9}, {2: 1}] * 2


def _model(settings: dict[str, Any], kernels: Kernels) -> Transformer:
    formats = choose_formats(Quantization.NONE, CPU, torch.float32, kernels)
    _, native = both(settings, torch.float32, kernels, formats)
    assert native.native_layers == native.num_layers
    return native


def _calls(model: Transformer, segments: list[Segment]) -> list[int]:
    """Return how many layers each call of a step runs; 0 where one is run by itself."""
    batch, calls, index = model.begin(with_states(model, segments)), list[int](), 0
    while index < model.num_layers:
        calls.append(len(model.run_layers(batch, index)))
        if not calls[-1]:
            model.run_layer(batch, index)
        index += calls[-1] or 1
    return calls


@pytest.mark.parametrize("name", MODELS)
def test_layers_in_one_call_are_what_each_by_itself_is(kernels: Kernels, name: str) -> None:
    """By the bit, in hidden states and KV, also where rings come around."""
    settings, _ = MODELS[name]
    together, apart = _model(settings, kernels), _model(settings, kernels)
    torch.manual_seed(1)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in [*({slot: rows} for slot, rows in PROMPTS.items()), *STEPS]:
            segments = segments_of(step, lengths)
            own, reference = run(together, segments), run(apart, segments, together=False)
            assert torch.equal(own.hidden, reference.hidden), step
            for segment in segments:
                for layer in apart.config.kv_layers:
                    seen = apart.config.window[layer]
                    start = 0 if seen is None else max(0, segment.end - seen)
                    place = (layer, segment.slot, start, segment.end, segment.pages)
                    assert all(map(torch.equal, together.kv.read(*place), apart.kv.read(*place)))
            assert all(map(torch.equal, states_left(together, segments), states_left(apart, segments)))


@pytest.mark.parametrize("name", MODELS)
def test_alike_layers_are_run_in_one_call(kernels: Kernels, name: str) -> None:
    settings, calls = MODELS[name]
    with torch.inference_mode():
        assert _calls(_model(settings, kernels), [Segment(0, 0, [1, 2, 3])]) == calls


def test_many_rows_are_run_layer_by_layer(kernels: Kernels) -> None:
    model = _model(LLAMA, kernels)
    with torch.inference_mode():
        assert _calls(model, [Segment(0, 0, [1] * (MOST_ROWS + 1))]) == [0, 0]
        assert _calls(model, [Segment(0, 0, [1] * MOST_ROWS)]) == [2]


def test_a_window_that_is_in_two_pieces_is_run_layer_by_layer(kernels: Kernels) -> None:
    model = _model(GEMMA3 | SIX | {"layer_types": SLIDING * 2}, kernels)
    rings = model.kv.rings
    assert rings is not None
    ring = rings.capacity(0)
    assert ring is not None
    with torch.inference_mode():
        for start in range(ring):
            run(model, [Segment(0, start, [1])])
        assert _calls(model, [Segment(0, ring, [1])]) == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("cancelled", [0, 2])
def test_a_call_ends_with_the_layer_in_which_somebody_is_cancelled(kernels: Kernels, cancelled: int) -> None:
    model = _model(LLAMA | SIX, kernels)
    segments = segments_of({0: 2, 1: 1, 2: 3}, {})
    with torch.inference_mode():
        batch = model.begin(with_states(model, segments))
        assert len(model.run_layers(batch, 0)) == 6
        segments[cancelled].mark.set(lambda: 1.0)
        assert len(model.run_layers(batch, 0)) == 1
        assert len(model.run_layers(batch, 5)) == 1
        model.shrink(batch, [place for place in range(3) if place != cancelled])
        assert len(model.run_layers(batch, 1)) == 5


def test_a_call_ends_when_it_has_taken_long(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks whether the step goes on is told so."""
    model = _model(LLAMA | SIX, kernels)
    monkeypatch.setattr(native_stack, "MOST_NANOSECONDS", 0)
    with torch.inference_mode():
        assert _calls(model, [Segment(0, 0, [1])]) == [1] * 6


def test_layers_end_one_after_the_other(kernels: Kernels) -> None:
    model = _model(LLAMA | SIX, kernels)
    with torch.inference_mode():
        ended = model.run_layers(model.begin(with_states(model, [Segment(0, 0, [1])])), 0)
    assert 0 < ended[0]
    assert list(ended) == sorted(ended)


def test_the_time_of_what_comes_before_the_kernels_counts(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer would seem to have ended before a cancel that came in it."""
    model = _model(LLAMA, kernels)
    monkeypatch.setattr(native_stack, "perf_counter", iter([100.0, 150.0]).__next__)
    with torch.inference_mode():
        first, last = model.run_layers(model.begin(with_states(model, [Segment(0, 0, [1])])), 0)
    assert 50.0 < first <= last


def test_layers_of_pytorch_are_run_one_by_one(kernels: Kernels) -> None:
    formats = choose_formats(Quantization.NONE, CPU, torch.float32, kernels)
    plain, _ = both(LLAMA, torch.float32, kernels, formats)
    with torch.inference_mode():
        assert _calls(plain, [Segment(0, 0, [1])]) == [0, 0]
