"""Memory that a model will take of its device, computed before anything of it is read or allocated."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.common.units import counted, format_size
from runtime.errors import CheckpointError
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.cache import kv_bytes
from runtime.kv.pages import PAGE_TOKENS, pool_positions
from runtime.kv.states import state_bytes
from runtime.nn.layers.attention import TILE
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.plan import planned_bytes
from runtime.nn.weights import weight_shapes
from runtime.step.device import memory_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.stored import StoredTensor
    from runtime.devices.native.kernels import Kernels
    from runtime.loading.options import LoadOptions

PER_SLOT = 5  # that a running sequence may need in a step: `actors.core.places.state_pool.least_buffers`
SNAPSHOTS = 8  # a slot, where nobody says how much memory they may take


@dataclass(frozen=True, slots=True)
class StateMemory:
    """Buffers of a model, each for a state of all its recurrent layers; none where it has no such layers.

    Attributes:
        bytes_per_buffer: what one takes.
        buffers: how many there are.
        snapshots: how many of them are for snapshots, beside what running sequences need.
    """

    bytes_per_buffer: int = 0
    buffers: int = 0
    snapshots: int = 0

    @property
    def nbytes(self) -> int:
        """Return what all of them take, with one of zeros for a sequence's beginning."""
        return (self.buffers + 1) * self.bytes_per_buffer

    def __str__(self) -> str:
        """Say how many there are, and how large one is."""
        size = format_size(self.bytes_per_buffer)
        return f"{counted(self.buffers, 'buffer')} of {size}, {self.snapshots} for snapshots"


def state_memory(options: LoadOptions, config: ModelConfig, dtype: torch.dtype) -> StateMemory:
    """Return what a model has for its states.

    Args:
        options: what to load, and for how many slots.
        config: the model's.
        dtype: of its rows.
    """
    if not config.is_hybrid:
        return StateMemory()
    size, snapshots = state_bytes(config, dtype), SNAPSHOTS * options.slots
    if options.state_memory is not None:
        snapshots = options.state_memory // size
    return StateMemory(size, PER_SLOT * options.slots + snapshots, snapshots)


STEP_ROWS = 512  # prompt rows of a usual step
# float32 copies of what a recurrent layer convolves of a prompt's rows: 15 with Mamba 2, 6 with the gated delta rule.
RECURRENT_COPIES = 16
SCORE_COPIES = 3  # float32 copies of a capped tile's scores: as they come, as weights, and these in the dtype
LOGITS_COPIES = 4  # float32 copies of a row of logits in a step: as they come, adjusted, as a distribution, sorted


@dataclass(frozen=True, slots=True)
class DrafterMemory:
    """Memory of a drafter, in bytes: its weights, and what it stores for each position of each slot."""

    weights: int = 0
    per_token: int = 0


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Memory of one slot: the target's KV, with the rings of layers with a window, and what the drafter stores.

    Attributes:
        config: the target's.
        dtype: of its KV.
        drafter_per_token: bytes that the drafter stores for each position.
    """

    config: ModelConfig
    dtype: torch.dtype
    drafter_per_token: int = 0

    def nbytes(self, context: int) -> int:
        """Return the bytes of a slot of so many positions."""
        return kv_bytes(self.config, self.dtype, slots=1, context=context) + context * self.drafter_per_token

    def positions(self, nbytes: int, slots: int, context: int) -> int:
        """Return the positions of a pool that takes no more than `nbytes` with the rings of so many slots.

        They are no more than all slots have at their longest.
        """
        sizes = {"slots": slots, "context": context}
        rings = kv_bytes(self.config, self.dtype, **sizes, positions=0)
        page = kv_bytes(self.config, self.dtype, **sizes, positions=PAGE_TOKENS) - rings
        page += PAGE_TOKENS * self.drafter_per_token
        most = pool_positions(slots, context)
        return most if not page else max(0, min((nbytes - rings) // page * PAGE_TOKENS, most))

    def longest_context(self, nbytes: int) -> int:
        """Return the most positions, up to the model's own context, of which a slot takes no more than `nbytes`."""
        return bisect_right(range(self.config.context_length + 1), nbytes, key=self.nbytes) - 1


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model needs, in bytes.

    Attributes:
        weights: the target's, in their formats.
        drafter: the drafter's weights, likewise.
        largest_part: the largest part of the weights, plain, while it is packed beside all the rest.
        activations: of a step.
        states: buffers for the states of recurrent layers.
        slot: what each slot takes beside that.
    """

    weights: int
    drafter: int
    largest_part: int
    activations: int
    states: StateMemory
    slot: SlotMemory

    @property
    def without_kv(self) -> int:
        """Bytes at the worst moment, which is either while loading or in a step."""
        return self.weights + self.drafter + self.states.nbytes + max(self.largest_part, self.activations)


def footprint(
    options: LoadOptions,
    config: ModelConfig,
    drafter: DrafterMemory,
    device: torch.device,
    dtype: torch.dtype,
    tensors: Mapping[str, StoredTensor] | None = None,
    kernels: Kernels | None = None,
) -> Footprint:
    """Compute the footprint of the model that `options` describe, on `device` in `dtype`.

    `tensors` are the checkpoint's, which say what its files have in few bits; None where all is in full.
    `kernels` will help on a CPU; None for none.
    """
    shapes = weight_shapes(config)
    sizes = [config.shape(layer) for layer in range(config.num_layers)]
    gated = 1 if config.output_gate is None else 2
    heads = max((gated * size.num_heads + 2 * size.num_kv_heads) * size.head_dim for size in sizes)
    inputs = config.num_layers * config.layer_input_size  # numbers that the layers are given of a token
    widths = heads + _mlp_width(config) + 4 * config.streams * config.hidden_size + 3 * inputs
    convolved = max((layer.channels for layer in config.recurrent if layer is not None), default=0)
    recurrent = STEP_ROWS * RECURRENT_COPIES * convolved * torch.float32.itemsize
    logits = LOGITS_COPIES * options.slots * config.vocab_size * torch.float32.itemsize
    embedded = max(config.vocab_size * config.hidden_size, config.layer_input_vocab * inputs)
    largest = max(embedded, *(outputs * columns for outputs, columns in shapes.matrices))
    return Footprint(
        weights=planned_bytes(config, options.quantize, device, dtype, tensors, kernels).total(),
        drafter=drafter.weights,
        largest_part=largest * dtype.itemsize,
        activations=STEP_ROWS * widths * dtype.itemsize + recurrent + logits + _capped_scores(options, config),
        states=state_memory(options, config, dtype),
        slot=SlotMemory(config, dtype, drafter.per_token),
    )


def _capped_scores(options: LoadOptions, config: ModelConfig) -> int:
    """Return the bytes of a tile's scores where these are capped: no kernel does that without all of them in memory."""
    if config.scales.attention_softcap is None:
        return 0
    context = options.context or config.context_length
    return SCORE_COPIES * TILE * config.num_heads * context * torch.float32.itemsize


def _mlp_width(config: ModelConfig) -> int:
    """Return how many numbers a row takes in an MLP or, where that is more, in a mixture of experts.

    There it is in the batch once for each of its experts: entering, leaving, ranked, and weighted in float32.  All rows
    of a step may meet in one expert.
    """
    shapes = [config.shape(layer) for layer in range(config.num_layers)]
    widths = [(7 if shape.mlp_sparsity else 3) * shape.intermediate_size for shape in shapes]
    widths += [3 * one.intermediate_size + 5 * one.per_row * config.hidden_size for one in config.experts if one]
    return max(widths)


def check_memory(
    options: LoadOptions,
    config: ModelConfig,
    drafter: DrafterMemory,
    device: torch.device,
    dtype: torch.dtype,
    tensors: Mapping[str, StoredTensor] | None = None,
    kernels: Kernels | None = None,
) -> None:
    """Check that the weights fit the memory, and the KV of an explicit context; the arguments are `footprint`'s.

    Raises:
        CheckpointError: they do not; the message has the figures, and what would fit.
    """
    takes = footprint(options, config, drafter, device, dtype, tensors, kernels)
    free = memory_limit(device)
    beside = free - takes.without_kv
    if beside < 0:
        raise CheckpointError(
            f"the model takes {format_size(takes.weights + takes.drafter)} of memory"
            f"{' with its drafter' if takes.drafter else ''}, {format_size(takes.without_kv)} while it is loaded and"
            f" runs, and {format_size(max(0, free))} are free{_smaller(options, dtype)}"
        )
    if options.kv_memory is not None:
        if options.kv_memory > beside:
            raise CheckpointError(
                f"--kv-memory {format_size(options.kv_memory)} does not fit beside {format_size(takes.without_kv)} for"
                f" the model: {format_size(free)} are free"
            )
        pool_sizes(options, takes.slot)
        return
    if options.context is None:
        return
    slot = takes.slot.nbytes(options.context)
    if options.slots * slot <= beside:
        return
    context, slots = takes.slot.longest_context(beside // options.slots), beside // slot
    fits = [f"--context {context}" if context else "", f"--slots {slots}" if slots else ""]
    raise CheckpointError(
        f"{counted(options.slots, 'slot')} of {options.context} tokens take"
        f" {format_size(options.slots * slot)} of memory, beside"
        f" {format_size(takes.without_kv)} for the model, and {format_size(free)} are free;"
        f" what fits: {' or '.join(filter(None, fits)) or 'a smaller model'}"
    )


def pool_sizes(options: LoadOptions, slot: SlotMemory) -> tuple[int, int]:
    """Return the longest sequence and the positions of the pool that `--kv-memory` has room for.

    Raises:
        CheckpointError: it has no room for one sequence of the context that was asked for, or of a block.
    """
    assert options.kv_memory is not None, "only where a size was given"
    wanted = options.context or slot.config.context_length
    positions = slot.positions(options.kv_memory, options.slots, wanted)
    least = options.context or BLOCK_TOKENS
    if positions < least:
        raise CheckpointError(
            f"--kv-memory {format_size(options.kv_memory)} has room for {positions} tokens; it must hold at least one"
            f" sequence of {least}"
        )
    context = min(wanted, positions)
    return context, slot.positions(options.kv_memory, options.slots, context)


def _smaller(options: LoadOptions, dtype: torch.dtype) -> str:
    """Say which options would take less memory, if any does."""
    if options.quantize is Quantization.INT4:
        return ""
    less = "int4" if options.quantize is Quantization.INT8 else "int8 or int4"
    full = options.quantize in (Quantization.AUTO, Quantization.NONE)
    narrower = ", or --dtype bfloat16" if full and dtype.itemsize > 2 else ""
    return f"; --quantize {less} takes less{narrower}"
