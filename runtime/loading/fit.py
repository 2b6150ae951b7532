"""Check of whether a model fits this machine, and with how much context: for those who ask before they load it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.common.units import counted, format_size
from runtime.devices.native.kernels import open_kernels
from runtime.loading.footprint import DrafterMemory, Footprint, footprint
from runtime.loading.load import CONTEXT_STEP, KV_SHARE
from runtime.nn.matrices.quantization import Quantization
from runtime.step.device import memory_limit, select_device, select_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.stored import StoredTensor
    from runtime.loading.options import LoadOptions


@dataclass(frozen=True, slots=True)
class Fit:
    """Memory that a model takes in one form, and what there is.

    Attributes:
        quantize: the form of its weights.
        takes: the memory that it needs.
        free: bytes on its device.
        slots: sequences that run at a time.
        own_context: tokens that the model was made for.
    """

    quantize: Quantization
    takes: Footprint
    free: int
    slots: int
    own_context: int

    @property
    def context(self) -> int:
        """Tokens that each slot can have, as `load_model` would choose them; 0 where the model does not fit."""
        if self.free < self.takes.without_kv:
            return 0
        budget = int((self.free - self.takes.weights - self.takes.states.nbytes) * KV_SHARE)
        tokens = self.takes.slot.longest_context(budget // self.slots)
        return self.own_context if tokens >= self.own_context else tokens // CONTEXT_STEP * CONTEXT_STEP

    def __str__(self) -> str:
        """Say what it takes and what fits, on one line."""
        states = self.takes.states
        working = self.takes.without_kv - self.takes.weights - states.nbytes
        parts = (
            f"weights {format_size(self.takes.weights)}, workspace {format_size(working)}, KV "
            f"{format_size(self.takes.slot.nbytes(self.own_context))} for {self.own_context} tokens"
            + (f", states {format_size(states.nbytes)} ({states})" if states.buffers else "")
        )
        fit = "fits" if self.slots == 1 else "fit"
        fits = f"{counted(self.slots, 'slot')} of {self.context} tokens {fit}" if self.context else "does not fit"
        return f"{parts}: {fits} into {format_size(max(0, self.free))}"


def fits_of(options: LoadOptions, config: ModelConfig, tensors: Mapping[str, StoredTensor] | None = None) -> list[Fit]:
    """Return what a model takes in the form of its files, in 8 and in 4 bits; nothing is read or allocated.

    Args:
        options: where it is to run and with how many slots; what they say of quantising is left aside.
        config: the model's.
        tensors: those of its files, which say what they have in few bits; None where all is in full.

    Raises:
        CheckpointError: there is no such device.
    """
    device = select_device(options.device)
    dtype = select_dtype(options.dtype, device, config.dtype)
    free = memory_limit(device)
    kernels = open_kernels(threads=1) if device.type == "cpu" and options.native == "auto" else None
    forms = (Quantization.AUTO, Quantization.INT8, Quantization.INT4)
    return [
        Fit(
            quantize,
            footprint(replace(options, quantize=quantize), config, DrafterMemory(), device, dtype, tensors, kernels),
            free,
            options.slots,
            config.context_length,
        )
        for quantize in forms
    ]


def what_fits(fits: list[Fit]) -> str:
    """Say in a word or two how a model fits: `yes`, with a smaller context, with `--quantize`, or `no`."""
    for fit in fits:
        if fit.context:
            shorter = "" if fit.context == fit.own_context else f"context {fit.context}"
            quantized = "" if fit.quantize is Quantization.AUTO else f"--quantize {fit.quantize}"
            return ", ".join(filter(None, (quantized, shorter))) or "yes"
    return "no"
