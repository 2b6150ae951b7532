"""A deterministic model: what it makes of a row is the same, to the bit, in whatever steps it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.nn.layers.native_layer import with_native_layers
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.linear import WeightFormats
from runtime.nn.matrices.native import NotInKernels
from runtime.nn.matrices.quantization import Quantization
from runtime.step.step import Segment
from tests.models.layers.native_models import (
    CONTEXT,
    CPU,
    GEMMA3,
    GRANITE_HYBRID,
    LFM2,
    LLAMA,
    QWEN2,
    QWEN3,
    QWEN3_5,
    SLACK,
    Opaque,
    both,
    run,
)
from tests.models.step_driver import pages_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.devices.native.kernels import Kernels
    from runtime.nn.model import Transformer

# Of each: which weights, and the most rows that one sequence may have in a step, which rings bound.
MODELS: dict[str, tuple[dict[str, Any], Quantization, torch.dtype, int]] = {
    "bfloat16": (LLAMA, Quantization.NONE, torch.bfloat16, CONTEXT),
    "bfloat16 with biases": (QWEN2, Quantization.NONE, torch.bfloat16, CONTEXT),
    "int8": (QWEN3, Quantization.INT8, torch.bfloat16, CONTEXT),
    "int4": (LLAMA, Quantization.INT4, torch.bfloat16, CONTEXT),
    "rings": (GEMMA3, Quantization.INT8, torch.bfloat16, SLACK),
    "float32": (QWEN3, Quantization.NONE, torch.float32, CONTEXT),
    "convolutions": (LFM2, Quantization.INT8, torch.bfloat16, CONTEXT),
    "Mamba 2": (GRANITE_HYBRID, Quantization.NONE, torch.bfloat16, CONTEXT),
    "the gated delta rule": (QWEN3_5, Quantization.INT8, torch.bfloat16, CONTEXT),
}
LENGTHS = (100, 77, 130, 33, 1)  # of the sequences; of most, more rows than the kernels take at once


@pytest.fixture(scope="module", params=MODELS)
def subject(request: pytest.FixtureRequest, kernels: Kernels) -> tuple[Transformer, int, list[torch.Tensor]]:
    """A model, the most rows of a segment, and the logits of all rows of each sequence, computed token by token."""
    settings, quantize, dtype, most = MODELS[request.param]
    formats = choose_formats(quantize, CPU, dtype, kernels)
    _, model = both(settings, dtype, kernels, formats, deterministic=True)
    assert model.native_layers == model.num_layers
    return model, most, [_logits(model, {place: [1] * rows})[place] for place, rows in enumerate(LENGTHS)]


@st.composite
def schedules(draw: st.DrawFn) -> dict[int, list[int]]:
    """Some of the sequences, and how many rows each has in each step, until it ends; some begin later."""
    chosen = draw(st.lists(st.sampled_from(range(len(LENGTHS))), min_size=1, unique=True))
    schedule = {}
    for place in chosen:
        rows: list[int] = [0] * draw(st.integers(0, 3))
        while sum(rows) < LENGTHS[place]:
            rows.append(draw(st.integers(1, LENGTHS[place] - sum(rows))))
        schedule[place] = rows
    return schedule


@given(schedules())
def test_a_row_is_the_same_to_the_bit_in_whatever_steps(
    subject: tuple[Transformer, int, list[torch.Tensor]], schedule: dict[int, list[int]]
) -> None:
    model, most, alone = subject
    bounded = {place: list(_bounded(rows, most)) for place, rows in schedule.items()}
    for place, logits in _logits(model, bounded).items():
        assert torch.equal(logits, alone[place]), place


def test_without_it_pytorch_computes_many_rows_and_rounds_otherwise(kernels: Kernels) -> None:
    """So that the test above sees what it is to see."""
    formats = choose_formats(Quantization.NONE, CPU, torch.bfloat16, kernels)
    _, model = both(LLAMA, torch.bfloat16, kernels, formats)
    alone = _logits(model, {0: [1] * LENGTHS[0]})[0]
    assert not torch.equal(_logits(model, {0: [LENGTHS[0]]})[0], alone)


def test_what_the_kernels_do_not_have_is_refused(kernels: Kernels) -> None:
    opaque = WeightFormats(Opaque, Opaque)
    with pytest.raises(NotInKernels, match="weights in another format"):
        both(LLAMA, torch.bfloat16, kernels, opaque, deterministic=True)


def test_one_layer_that_they_do_not_have_is_enough(kernels: Kernels) -> None:
    formats = choose_formats(Quantization.INT8, CPU, torch.bfloat16, kernels)
    plain, _ = both(LLAMA, torch.bfloat16, kernels, formats)
    opaque, _ = both(LLAMA, torch.bfloat16, kernels, WeightFormats(Opaque, Opaque))
    layers = [plain.weights.layers[0], opaque.weights.layers[1]]
    with pytest.raises(NotInKernels):
        with_native_layers(layers, plain.config, torch.bfloat16, kernels, deterministic=True)


def _bounded(rows: Sequence[int], most: int) -> Iterator[int]:
    for count in rows:
        yield from [most] * (count // most)
        if count % most or not count:
            yield count % most


@torch.inference_mode()
def _logits(model: Transformer, schedule: dict[int, list[int]]) -> dict[int, torch.Tensor]:
    """Run the sequences in these steps, and return the logits of all their rows."""
    texts = {place: torch.randint(1, 320, (LENGTHS[place],), generator=_seeded(place)).tolist() for place in schedule}
    given: dict[int, list[torch.Tensor]] = {place: [] for place in schedule}
    done = dict.fromkeys(schedule, 0)
    for step in range(max(map(len, schedule.values()))):
        segments = []
        for place, rows in schedule.items():
            if step < len(rows) and (count := rows[step]):
                tokens = texts[place][done[place] : done[place] + count]
                segments.append(Segment(place, done[place], tokens, pages=pages_of(place, CONTEXT)))
                done[place] += count
        if not segments:
            continue
        batch = run(model, segments)
        logits = model.compute_logits(model.weights.final_norm(batch.hidden))
        for segment, own in zip(segments, batch.ranges, strict=True):
            given[segment.slot].append(logits[own.start : own.stop])
    return {place: torch.cat(pieces) for place, pieces in given.items()}


def _seeded(place: int) -> torch.Generator:
    return torch.Generator().manual_seed(place)
