"""Decoding and prefill against this machine's read bandwidth and matrix rate.

    python -m bench.engine.roofline [--model qwen3-0.6b|smollm2-135m|embedded|FILE] [--quantize int8|int4]

The machine's read bandwidth and its rate of matrix products are measured in the same run.  Decoding is compared with
the bandwidth: bytes of weights and KV that a step must read, over its time.  Prefill is compared with the matrix rate:
multiplications and additions of the prompt's rows, over its time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import TYPE_CHECKING

import torch
import trio

from bench.engine.models.open_models import MODELS, ModelSpec, open_model
from runtime.nn.matrices.quantization import Quantization
from runtime.selftest.rates import decode, matrix_rate, prefill, random_prompt, read_bandwidth, seconds_per_step

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.model import Transformer


def layer_parameters(config: ModelConfig, rows: int = 1) -> int:
    """Return the number of weights that are read for so many rows, in all layers; experts as if no two rows met one."""
    attended = config.num_heads * config.head_dim
    qkv = attended + 2 * config.num_kv_heads * config.head_dim
    mlps = sum(
        config.intermediate_size
        if experts is None
        else min(experts.count, rows * experts.per_row) * experts.intermediate_size
        for experts in config.experts
    )
    return config.hidden_size * (config.num_layers * (qkv + attended) + 3 * mlps)


def decode_bytes(model: Transformer, streams: int, depth: int) -> int:
    """Return the bytes that a step reads: the layers, the head, and the KV of every stream."""
    met = layer_parameters(model.config, streams) / layer_parameters(model.config, sys.maxsize)
    layers = sum(layer.nbytes for layer in model.weights.layers)
    weights = round(layers * met) + model.weights.lm_head.nbytes
    return weights + streams * depth * model.kv.bytes_per_token


def prefill_operations(config: ModelConfig, tokens: int) -> int:
    """Return the multiplications and additions of a prompt, with causal attention and without windows."""
    attention = 4 * config.num_layers * config.num_heads * config.head_dim * tokens * (tokens + 1) // 2
    return 2 * layer_parameters(config) * tokens + attention


def measure_decode(model: Transformer, streams: int, depth: int, tokens: int, bandwidth: float) -> None:
    """Print one line of figures.  To be called on the device thread."""
    for slot in range(streams):
        prefill(model, slot, random_prompt(model, depth, slot))
    seconds = seconds_per_step(decode(model, streams, depth, tokens))
    reached = decode_bytes(model, streams, depth + tokens // 2) / seconds
    print(
        f"decode, streams {streams}, {depth} deep: {streams / seconds:.1f} tokens/s, {reached / 1e9:.1f} GB/s, "
        f"{reached / bandwidth:.2f} of the bandwidth"
    )


def measure_prefill(model: Transformer, tokens: int, chunk: int, rounds: int, rate: float) -> None:
    """Print one line of figures.  To be called on the device thread."""
    times = []
    for seed in range(rounds):
        results = prefill(model, 0, random_prompt(model, tokens, seed), chunk)
        times.append(results[-1].finished_at - results[0].started_at)
    seconds = statistics.median(times)
    reached = prefill_operations(model.config, tokens) / seconds
    print(
        f"prefill, {tokens} tokens: {tokens / seconds:.0f} tokens/s, {reached / 1e9:.0f} GFLOP/s, "
        f"{reached / rate:.2f} of the matrix rate"
    )


def measure(model: Transformer, given: argparse.Namespace) -> None:
    """Measure everything.  To be called on the device thread."""
    device, dtype = model.weights.embedding.device, model.kv.dtype
    forms = ", ".join(model.weights.nbytes_by_form)
    print(f"{given.model} in {dtype} on {device}, weights in {forms}, {torch.get_num_threads()} threads")
    print(f"few rows of {model.native_layers} of {model.num_layers} layers by cede's kernels")
    bandwidth, rate = read_bandwidth(device), matrix_rate(device, dtype)
    print(f"read bandwidth {bandwidth / 1e9:.1f} GB/s, matrix products {rate / 1e9:.0f} GFLOP/s in {dtype}")
    for streams in given.streams:
        for depth in given.depths:
            measure_decode(model, streams, depth, given.tokens, bandwidth)
    for length in given.lengths:
        measure_prefill(model, length, given.chunk, given.rounds, rate)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


async def main() -> None:
    """Parse the arguments, load the model, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen3-0.6b", help=MODELS)
    parser.add_argument("--streams", type=_numbers, default=[1, 8])
    parser.add_argument("--depths", type=_numbers, default=[16, 1024])
    parser.add_argument("--tokens", type=int, default=32, help="decoded by each stream")
    parser.add_argument("--lengths", type=_numbers, default=[512, 2048], help="of prompts")
    parser.add_argument("--chunk", type=int, default=512, help="prompt rows in a step")
    parser.add_argument("--rounds", type=int, default=3, help="of each prompt")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantize", type=Quantization, default=Quantization.AUTO, help="none, int8, int4")
    parser.add_argument("--native", choices=["auto", "off"], default="auto")
    parser.add_argument(
        "--deterministic", choices=["off", "on"], default="off", help="on: kernels compute prompts, too"
    )
    given = parser.parse_args()
    context = max(max(given.depths) + given.tokens + 1, *given.lengths)
    how = given.quantize, given.native, given.deterministic
    spec = ModelSpec(given.model, max(given.streams), context, given.dtype, given.device, *how)
    async with open_model(spec) as (executor, _):
        await executor.call(lambda: measure(executor.model, given))


if __name__ == "__main__":
    trio.run(main)
