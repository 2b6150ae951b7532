"""Small models whose few rows are computed in another way, and steps of few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from runtime.checkpoint.config import parse_config
from runtime.nn.layers.batch import Batch
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.weights import build_weights
from runtime.step.step import Segment
from tests.models.layers.native_models import (
    CPU,
    GEMMA3,
    GRANITE,
    LLAMA,
    MINISTRAL3,
    QWEN2,
    QWEN3,
    Drawn,
    buffers_of,
    difference,
    kv_of,
    run,
    segments_of,
)
from tests.models.step_driver import with_states

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
    "ministral3": MINISTRAL3,
}
PROMPTS = {0: 16, 1: 13, 2: 9}
STEPS: list[dict[int, int]] = [{0: 1}, {0: 1, 1: 1, 2: 1}, {1: 4}, {0: 2, 2: 1, 3: 1}]


def pair(settings: dict[str, Any], **own: Any) -> tuple[Transformer, Transformer]:  # noqa: ANN401
    """Two models of the same weights in float32: as it is, and one that is given `own` besides."""
    config = parse_config({name: value for name, value in (settings | TINY).items() if value is not None})
    formats = choose_formats(Quantization.NONE, CPU, torch.float32)
    weights = build_weights(Drawn(CPU, torch.float32, 1, formats), config)
    plain, other = (
        Transformer(config, weights, kv_of(config, torch.float32), buffers=buffers_of(config, torch.float32), **besides)
        for besides in ({}, own)
    )
    return plain, other


def read_prompts(*models: Transformer, more: int = 0) -> dict[int, int]:
    """Read a prompt into each of three slots, and `more` tokens behind it; returns their lengths."""
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    for counts in (PROMPTS, dict.fromkeys(PROMPTS, more) if more else {}):
        for slot, count in counts.items():
            segments = segments_of({slot: count}, lengths)
            for model in models:
                run(model, segments)
    return lengths


def check_kv(first: Transformer, second: Transformer, segments: Sequence[Segment]) -> None:
    """Check that the next rows of these sequences see the same in both models."""
    for segment in segments:
        for layer in range(first.num_layers):
            seen = first.config.window[layer]
            start = 0 if seen is None else max(0, segment.end - seen)
            one, other = (
                model.kv.read(layer, segment.slot, start, segment.end, segment.pages) for model in (first, second)
            )
            assert max(difference(mine, theirs) for mine, theirs in zip(one, other, strict=True)) < 1e-5


def drop_between_layers(
    models: Sequence[Transformer], rows: dict[int, int], lengths: dict[int, int], kept: Sequence[int]
) -> tuple[list[Segment], list[Batch]]:
    """Run two layers of a step of each model; between them all leave it but those at the indices `kept`."""
    segments = segments_of(rows, lengths)
    batches = [model.begin(with_states(model, segments)) for model in models]
    for model, batch in zip(models, batches, strict=True):
        model.run_layer(batch, 0)
        model.shrink(batch, kept)
        model.run_layer(batch, 1)
    return segments, batches
