"""What a model will take of its device's memory, computed before anything of it is read or allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.errors import CheckpointError
from runtime.kv.cache import kv_bytes_per_token
from runtime.nn.matrices.linear import PlainMatrix
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.matrices.quantize import choose_formats, packed_bytes
from runtime.nn.source import ShapeSource
from runtime.nn.weights import build_weights, weight_shapes
from runtime.step.device import memory_limit
from runtime.units import format_size

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.options import LoadOptions

STEP_ROWS = 512  # prompt rows of a usual step
LOGITS_COPIES = 4  # float32 copies of a row of logits in a step: as they come, adjusted, as a distribution, sorted


@dataclass(frozen=True, slots=True)
class DrafterMemory:
    """What a drafter takes, in bytes: its weights, and what it stores for each position of each slot."""

    weights: int = 0
    per_token: int = 0


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model needs, in bytes.

    Attributes:
        weights: the target's, in their formats.
        drafter: the drafter's weights, likewise.
        largest_part: the largest part of the weights, plain, while it is packed beside all the rest.
        activations: of a step.
        per_token: of each position of a slot: KV, and what the drafter stores.
    """

    weights: int
    drafter: int
    largest_part: int
    activations: int
    per_token: int

    @property
    def without_kv(self) -> int:
        """Bytes at the worst moment, which is either while loading or in a step."""
        return self.weights + self.drafter + max(self.largest_part, self.activations)


def footprint(
    options: LoadOptions, config: ModelConfig, drafter: DrafterMemory, device: torch.device, dtype: torch.dtype
) -> Footprint:
    """Compute the footprint of the model that `options` describe, on `device` in `dtype`."""
    shapes = weight_shapes(config)
    heads = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    widths = heads + _mlp_width(config) + 4 * config.hidden_size
    logits = LOGITS_COPIES * options.slots * config.vocab_size * torch.float32.itemsize
    largest = max(outputs * inputs for outputs, inputs in [*shapes.matrices, (config.vocab_size, config.hidden_size)])
    return Footprint(
        weights=packed_weight_bytes(config, device, dtype, options.quantize),
        drafter=drafter.weights,
        largest_part=largest * dtype.itemsize,
        activations=STEP_ROWS * widths * dtype.itemsize + logits,
        per_token=kv_bytes_per_token(config, dtype) + drafter.per_token,
    )


def _mlp_width(config: ModelConfig) -> int:
    """Return how many numbers a row takes in an MLP or, where that is more, in a mixture of experts.

    There it is in the batch once for each of its experts: entering, leaving, ranked, and weighted in float32.  All rows
    of a step may meet in one expert.
    """
    widths = [3 * config.intermediate_size]
    widths += [3 * one.intermediate_size + 5 * one.per_row * config.hidden_size for one in config.experts if one]
    return max(widths)


def packed_weight_bytes(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, quantization: Quantization | None
) -> int:
    """Estimate the bytes of a model's weights in their formats, which `Weights.nbytes` tells once they are loaded."""
    source = ShapeSource(dtype)
    plain = build_weights(source, config).nbytes
    matrices = source.matrices if config.tied_embeddings else source.matrices[:-1]  # the head is the last
    packed = sum(
        packed_bytes(*matrix, dtype, quantization) - matrix[0] * matrix[1] * dtype.itemsize for matrix in matrices
    )
    head_shape = config.vocab_size, config.hidden_size
    head = packed_bytes(*head_shape, dtype, None if quantization is None else Quantization.INT8)
    if not config.tied_embeddings:
        head -= config.vocab_size * config.hidden_size * dtype.itemsize
    elif choose_formats(quantization, device, dtype).head is PlainMatrix:
        head = 0  # it is the embedding
    return plain + packed + head


def check_memory(
    options: LoadOptions, config: ModelConfig, drafter: DrafterMemory, device: torch.device, dtype: torch.dtype
) -> None:
    """Check that the weights fit the memory, and the KV of an explicit context.

    Raises:
        CheckpointError: they do not; the message has the figures, and what would fit.
    """
    takes = footprint(options, config, drafter, device, dtype)
    free = memory_limit(device)
    beside = free - takes.without_kv
    if beside < 0:
        raise CheckpointError(
            f"the model takes {format_size(takes.weights + takes.drafter)} of memory"
            f"{' with its drafter' if takes.drafter else ''}, {format_size(takes.without_kv)} while it is loaded and"
            f" runs, and {format_size(max(0, free))} are free{_smaller(options, dtype)}"
        )
    if options.context is None or options.slots * options.context * takes.per_token <= beside:
        return
    positions = beside // takes.per_token
    fits = [
        f"--context {positions // options.slots}" if positions >= options.slots else "",
        f"--slots {positions // options.context}" if positions >= options.context else "",
    ]
    raise CheckpointError(
        f"{options.slots} slots of {options.context} tokens take"
        f" {format_size(options.slots * options.context * takes.per_token)} of memory, beside"
        f" {format_size(takes.without_kv)} for the model, and {format_size(free)} are free;"
        f" what fits: {' or '.join(filter(None, fits)) or 'a smaller model'}"
    )


def _smaller(options: LoadOptions, dtype: torch.dtype) -> str:
    """Say which options would take less memory, if any does."""
    if options.quantize is Quantization.INT4:
        return ""
    less = "int4" if options.quantize is Quantization.INT8 else "int8 or int4"
    narrower = ", or --dtype bfloat16" if options.quantize is None and dtype.itemsize > 2 else ""
    return f"; --quantize {less} takes less{narrower}"
