"""The roofline of a model: its parameters, operations and bytes are what the code computes and reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.engine.models.open_models import open_model
from bench.engine.models.shapes import shape
from bench.engine.roofline import decode_bytes, layer_parameters, measure_decode, measure_prefill, prefill_operations
from runtime.checkpoint.layer_config import ExpertsConfig
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.self_attention import SelfAttention
from tests.unit.bench.engine.small_models import DEPTH, ROOM, TOKENS


def test_parameters_are_those_of_the_published_shape() -> None:
    # Qwen3-0.6B: 0.6 billion parameters, 0.44 of them outside the embedding (its model card).
    assert layer_parameters(shape("qwen3-0.6b")) == pytest.approx(0.44e9, rel=0.01)


def test_of_experts_those_count_that_rows_meet() -> None:
    plain = shape("smollm2-135m")
    mixed = replace(plain, experts=(ExpertsConfig(8, 2, 100),) * plain.num_layers)
    without = replace(plain, intermediate_size=0)
    for rows, met in ((1, 2), (3, 6), (5, 8)):
        expected = layer_parameters(without) + plain.num_layers * plain.hidden_size * 3 * 100 * met
        assert layer_parameters(mixed, rows) == expected


def test_attention_is_a_triangle() -> None:
    config = shape("smollm2-135m")
    one, three = prefill_operations(config, 1), prefill_operations(config, 3)
    per_pair = 4 * config.num_layers * config.num_heads * config.head_dim
    assert one == 2 * layer_parameters(config) + per_pair
    assert three == 3 * (one - per_pair) + 6 * per_pair


async def test_a_step_reads_the_weights_and_the_kv(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_model(ROOM) as (executor, _):
        model = executor.model
        linears = []
        for layer in model.weights.layers:
            assert isinstance(layer.attention, SelfAttention)
            assert isinstance(layer.mlp, GatedMlp)
            linears += [layer.attention.qkv, layer.attention.output, layer.mlp.gate_up, layer.mlp.down]
        matrices = sum(linear.nbytes for linear in (*linears, model.weights.lm_head))
        assert decode_bytes(model, 3, 0) == pytest.approx(matrices, rel=0.01)  # and norms
        assert decode_bytes(model, 3, 10) - decode_bytes(model, 3, 0) == 30 * model.kv.bytes_per_token
        await executor.call(lambda: measure_decode(model, 2, DEPTH, TOKENS, bandwidth=1e9))
        await executor.call(lambda: measure_prefill(model, DEPTH, chunk=4, rounds=1, rate=1e9))
    assert "of the bandwidth" in capsys.readouterr().out
