"""The benchmarks that run a model in this process: what they count is what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from bench.engine.cache import BareModel
from bench.engine.overhead import Bench, Pace, measure
from bench.engine.roofline import decode_bytes, layer_parameters, measure_decode, measure_prefill, prefill_operations
from bench.engine.scaling import Line
from bench.engine.scaling import measure as measure_scaling
from bench.engine.shapes import shape
from bench.engine.steps import EMBEDDED, ModelSpec, open_model
from runtime.selftest.rates import CHUNK, decode, prefill, random_prompt, seconds_per_step
from runtime.step.step import SegmentResult, StepResult

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.loading.served import ServedModel

DEPTH, TOKENS = 8, 6
ROOM = ModelSpec(EMBEDDED, slots=2, context=DEPTH + TOKENS + 1, device="cpu", dtype="float32")


def test_parameters_are_those_of_the_published_shape() -> None:
    # Qwen3-0.6B: 0.6 billion parameters, 0.44 of them outside the embedding (its model card).
    assert layer_parameters(shape("qwen3-0.6b")) == pytest.approx(0.44e9, rel=0.01)


def test_attention_is_a_triangle() -> None:
    config = shape("smollm2-135m")
    one, three = prefill_operations(config, 1), prefill_operations(config, 3)
    per_pair = 4 * config.num_layers * config.num_heads * config.head_dim
    assert one == 2 * layer_parameters(config) + per_pair
    assert three == 3 * (one - per_pair) + 6 * per_pair


def test_time_lies_between_the_ends_of_steps() -> None:
    nothing: tuple[SegmentResult, ...] = ()
    results = [StepResult(nothing, at, at + 2, 1) for at in (0.0, 3.0, 8.0)]
    assert seconds_per_step(results) == 4
    assert Pace.of(results) == Pace(step=4, gap=2)


@pytest.mark.parametrize("bare", [False, True])
async def test_the_engine_is_measured_against_the_loop(capsys: pytest.CaptureFixture[str], bare: bool) -> None:
    """Over the model as it is served, and as shapes of random weights are."""
    async with open_model(ROOM) as (executor, served):
        if bare:
            served = cast("ServedModel", BareModel(executor.model.config, ROOM.context))
        ratio = await measure(Bench(executor, served, DEPTH, TOKENS), 2, rounds=1)
    assert ratio > 0
    printed = capsys.readouterr().out
    assert printed.startswith("streams 2: loop ")
    assert float(printed.partition("Trio's tasks ")[2].split()[0]) < 1e6  # microseconds of Trio's for a token


async def test_a_step_reads_the_weights_and_the_kv(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_model(ROOM) as (executor, _):
        model = executor.model
        norms = sum(
            tensor.nbytes
            for layer in model.weights.layers
            for tensor in (layer.input_norm, layer.post_norm, layer.q_norm, layer.k_norm)
            if tensor is not None
        )
        matrices = sum(layer.nbytes for layer in model.weights.layers) - norms + model.weights.lm_head.nbytes
        assert decode_bytes(model, 3, 0) == matrices
        assert decode_bytes(model, 3, 10) - decode_bytes(model, 3, 0) == 30 * model.kv.bytes_per_token
        await executor.call(lambda: measure_decode(model, 2, DEPTH, TOKENS, bandwidth=1e9))
        await executor.call(lambda: measure_prefill(model, DEPTH, chunk=4, rounds=1, rate=1e9))
    assert "of the bandwidth" in capsys.readouterr().out


async def test_the_loop_reads_in_chunks_and_decodes() -> None:
    async with open_model(ROOM) as (executor, _):
        model = executor.model
        read = await executor.call(lambda: prefill(model, 0, random_prompt(model, DEPTH, 1), chunk=3))
        steps = await executor.call(lambda: decode(model, 1, DEPTH, 4))
    assert len(read) == 3
    assert [len(step.segments[0].tokens) for step in steps] == [1] * 4


def test_a_line_is_told_from_a_curve() -> None:
    before = range(0, 4096, 512)
    straight = Line.through(before, [0.5 + 2e-4 * tokens for tokens in before])
    assert [straight.constant, straight.slope] == pytest.approx([0.5, 2e-4])
    assert straight.curved == pytest.approx(0, abs=1e-9)
    assert Line.through(before, [0.5 + 1e-7 * tokens**2 for tokens in before]).curved > 0.1


async def test_a_long_prompt_is_measured_chunk_by_chunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    length = 3 * CHUNK
    spec = ModelSpec(EMBEDDED, slots=2, context=length + 2, device="cpu", dtype="float32")
    async with open_model(spec) as (executor, _):
        await executor.call(lambda: measure_scaling(executor.model, length, 2, 2, rounds=1, out=tmp_path))
    chunks, memory = capsys.readouterr().out.splitlines()
    assert chunks.startswith(f"{length} tokens in chunks of {CHUNK}: ")
    assert memory.startswith(f"2 streams, {length} tokens deep: ")
    assert (tmp_path / "scaling.png").stat().st_size > 1000
