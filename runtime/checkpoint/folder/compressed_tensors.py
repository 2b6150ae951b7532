"""The layout `pack-quantized` of compressed-tensors, as llm-compressor writes it.

The codes of a row lie one behind the other in 32-bit words, the lowest bits first; a weight is `(code - zero) * scale`,
where the zero is the middle of the codes unless there are others, which are packed by outputs.

Source: https://github.com/vllm-project/compressed-tensors (compressed_tensors/compressors/pack_quantized).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.gptq import check_order
from runtime.checkpoint.folder.packed import FLOATS, SIGNED_BYTES, WORDS, Groups, Part, WholeNumbers, unpack, words_of
from runtime.checkpoint.json_fields import integer, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from runtime.checkpoint.folder.packed import Layout, Parts
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows

FORMAT = "pack-quantized"
_BITS = (4, 8)
_INT8 = "I8"


@dataclass(frozen=True, slots=True)
class CompressedLayout(WholeNumbers):
    """`weight_packed` has the codes, `weight_scale` is `[out, groups]`, and `weight_zero_point` may be there.

    Zero points in bytes are not packed and have a sign: so older files have them.
    """

    bits: int
    group: int | None
    symmetric: bool
    name: str = FORMAT

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the shape that the words make."""
        *outputs, words = parts["weight_packed"].shape
        return (*outputs, words * 32 // self.bits)

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return the codes, the scales, and the zero points and inputs' groups where they are given."""
        *outputs, inputs = shape
        rows, groups = outputs[0] if outputs else 0, inputs // (self.group or inputs or 1)
        expected = {
            "weight_packed": Part((rows, words_of(inputs, self.bits)), WORDS),
            "weight_scale": Part((rows, groups if groups * (self.group or inputs) == inputs else 0), FLOATS),
        }
        if not self.symmetric:
            packed = _zero_point_form(parts) != _INT8
            size = (words_of(rows, self.bits), groups) if packed else (rows, groups)
            expected["weight_zero_point"] = Part(size, WORDS if packed else SIGNED_BYTES)
        if "weight_g_idx" in parts:
            expected["weight_g_idx"] = Part((inputs,), WORDS)
        return expected

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read rows; raises CheckpointError where inputs are in another order."""
        if "weight_g_idx" in parts:
            check_order(parts["weight_g_idx"], self.group)
        codes, scales = unpack(parts["weight_packed"].expand(rows), self.bits), parts["weight_scale"].expand(rows)
        return Groups(codes, scales.float(), self._points(parts, rows))

    def _points(self, parts: Parts, rows: Rows) -> torch.Tensor | int:
        """Return the zero points, or the one for all."""
        middle = 1 << self.bits - 1
        if self.symmetric:
            return middle
        stored = parts["weight_zero_point"]
        if stored.form == _INT8:
            return stored.expand(rows).float() + middle
        return unpack(stored.expand().T, self.bits).T[rows].float()


def compressed_layouts(quantization: Settings) -> Callable[[str], Layout]:
    """Return the layout of all modules, as `quantization_config` says.

    Raises:
        CheckpointError: it asks for what cede does not compute.
    """
    if quantization.get("format") != FORMAT:
        why = f"is not supported for compressed-tensors, {FORMAT!r} is"
        raise invalid("quantization_config.format", quantization.get("format"), why)
    for key in ("kv_cache_scheme", "transform_config"):
        if quantization.get(key):
            raise invalid(f"quantization_config.{key}", quantization[key], "is not supported")
    groups = quantization.get("config_groups")
    entries = list(groups.values()) if isinstance(groups, Mapping) else []
    layouts = {_layout(entry) for entry in entries if isinstance(entry, Mapping)}
    if len(layouts) != 1:
        raise invalid("quantization_config.config_groups", groups, "is not supported: one form of the weights is")
    (layout,) = layouts
    return lambda module: layout


def _layout(entry: Settings) -> CompressedLayout:
    weights = entry.get("weights")
    if not isinstance(weights, Mapping):
        raise invalid("quantization_config.config_groups.weights", weights, "is not an object")
    if entry.get("input_activations") or entry.get("output_activations"):
        why = "is not supported: activations are not quantised"
        raise invalid("quantization_config.config_groups.input_activations", entry.get("input_activations"), why)
    bits, strategy = integer(weights, "num_bits"), weights.get("strategy")
    if weights.get("type", "int") != "int" or bits not in _BITS:
        raise invalid("quantization_config.config_groups.weights", dict(weights), "is not whole numbers of 4 or 8 bits")
    if strategy not in ("group", "channel"):
        raise invalid("quantization_config.config_groups.weights.strategy", strategy, "is not supported")
    if weights.get("actorder") in ("group", "dynamic"):
        why = "is not supported: the inputs of a group (g_idx) have to be neighbours"
        raise invalid("quantization_config.config_groups.weights.actorder", weights["actorder"], why)
    group = integer(weights, "group_size") if strategy == "group" else None
    return CompressedLayout(bits, group, weights.get("symmetric", True) is True)


def _zero_point_form(parts: Parts) -> str | None:
    stored = parts.get("weight_zero_point")
    return None if stored is None else stored.form
