"""GPTQ's and AWQ's layouts: outputs lie in columns, and zeros are whole numbers of as many bits as the codes.

A weight is `(code - zero) * scale`.  GPTQ packs neighbouring inputs into a word, and AWQ neighbouring outputs, in the
order that its GEMM kernel reads them; zeros are packed by outputs in both.  Files of GPTQ's first version hold each
zero less one.

Sources: https://github.com/ModelCloud/GPTQModel (gptqmodel/nn_modules/qlinear) and
https://github.com/casper-hansen/AutoAWQ (awq/utils/packing_utils.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.packed import FLOATS, WORDS, Groups, Part, WholeNumbers, unpack, words_of
from runtime.checkpoint.json_fields import integer, invalid
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from runtime.checkpoint.folder.packed import Layout, Parts
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows, StoredTensor

_GPTQ_BITS = (4, 8)
# The place in its word of each of eight neighbouring outputs.
_AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


@dataclass(frozen=True, slots=True)
class GptqLayout(WholeNumbers):
    """`qweight` is `[in * bits / 32, out]`, `scales` are `[groups, out]`, `qzeros` are `[groups, out * bits / 32]`."""

    bits: int
    group: int | None
    added: int  # to each zero of the file
    name: str = "GPTQ"

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the shape that the words make."""
        words, outputs = _matrix(parts["qweight"])
        return (outputs, words * 32 // self.bits)

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return the three parts, and the inputs' groups where they are given."""
        outputs, inputs = shape
        grouped = {
            "qweight": Part((words_of(inputs, self.bits), outputs), WORDS),
            **_by_group(shape, self.bits, self.group),
        }
        return grouped | {"g_idx": Part((inputs,), WORDS)} if "g_idx" in parts else grouped

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read the whole and take rows of it; raises CheckpointError where inputs are in another order."""
        if "g_idx" in parts:
            check_order(parts["g_idx"], self.group)
        codes = unpack(parts["qweight"].expand().T, self.bits)
        points = unpack(parts["qzeros"].expand(), self.bits).T + self.added
        return _selected(codes, parts["scales"].expand().T, points, rows)


@dataclass(frozen=True, slots=True)
class AwqLayout(WholeNumbers):
    """`qweight` is `[in, out / 8]`, `scales` are `[groups, out]`, `qzeros` are `[groups, out / 8]`."""

    group: int | None
    name: str = "AWQ"
    bits: int = 4

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the shape that the words make."""
        inputs, words = _matrix(parts["qweight"])
        return (words * 8, inputs)

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return the three parts."""
        outputs, inputs = shape
        return {
            "qweight": Part((inputs, words_of(outputs, self.bits)), WORDS),
            **_by_group(shape, self.bits, self.group),
        }

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read the whole and take rows of it."""
        codes, points = (self._unpacked(parts[name].expand()) for name in ("qweight", "qzeros"))
        return _selected(codes, parts["scales"].expand().T, points, rows)

    def _unpacked(self, words: torch.Tensor) -> torch.Tensor:
        """Return codes `[out, …]` of words `[…, out / 8]`."""
        places = unpack(words, self.bits).view(words.shape[0], -1, 8)
        return places[:, :, _AWQ_ORDER].view(words.shape[0], -1).T


def gptq_layouts(quantization: Settings) -> Callable[[str], Layout]:
    """Return the layout of all modules, as `quantization_config` says.

    Raises:
        CheckpointError: it asks for what cede does not compute.
    """
    bits = integer(quantization, "bits")
    if bits not in _GPTQ_BITS:
        raise invalid("quantization_config.bits", bits, "is not supported for GPTQ, 4 and 8 are")
    if quantization.get("desc_act"):
        why = "is not supported: the inputs of a group (g_idx) have to be neighbours"
        raise invalid("quantization_config.desc_act", True, why)
    dynamic = quantization.get("dynamic") or {}
    if not isinstance(dynamic, Mapping) or any(not str(name).startswith("-:") for name in dynamic):
        raise invalid("quantization_config.dynamic", dynamic, "is not supported: modules differ in their bits")
    version = quantization.get("checkpoint_format", quantization.get("format")) or "gptq"
    if version not in ("gptq", "gptq_v2"):
        raise invalid("quantization_config.checkpoint_format", version, "is not supported, gptq and gptq_v2 are")
    layout = GptqLayout(bits, group_size(quantization), added=1 if version == "gptq" else 0)
    return lambda module: layout


def awq_layouts(quantization: Settings) -> Callable[[str], Layout]:
    """Return the layout of all modules, as `quantization_config` says.

    Raises:
        CheckpointError: it asks for what cede does not compute.
    """
    bits = integer(quantization, "bits")
    if bits != 4:
        raise invalid("quantization_config.bits", bits, "is not supported for AWQ, 4 is")
    version = str(quantization.get("version", quantization.get("format")) or "gemm").lower()
    if version != "gemm":
        raise invalid("quantization_config.version", version, "is not supported for AWQ, 'gemm' is")
    if quantization.get("zero_point") is False:
        raise invalid("quantization_config.zero_point", False, "is not supported for AWQ")
    layout = AwqLayout(group_size(quantization))
    return lambda module: layout


def group_size(quantization: Settings) -> int | None:
    """Read `group_size`, by which -1 and null mean one group for each output."""
    if quantization.get("group_size", -1) in (-1, None):
        return None
    return integer(quantization, "group_size")


def check_order(indices: StoredTensor, group: int | None) -> None:
    """Raise CheckpointError unless each input's group, `[in]`, is that of its place."""
    import torch

    found = indices.expand()
    if group is None or not torch.equal(found.long(), torch.arange(len(found)) // group):
        raise CheckpointError(
            f"{indices.file}: g_idx orders the inputs by activation (desc_act), which is not supported; a checkpoint"
            " that was quantised without it is"
        )


def _matrix(part: StoredTensor) -> tuple[int, int]:
    if len(part.shape) != 2:
        raise CheckpointError(f"{part.file}: qweight is {list(part.shape)}, and not a matrix")
    return part.shape[0], part.shape[1]


def _by_group(shape: tuple[int, ...], bits: int, group: int | None) -> dict[str, Part]:
    """Return what scales and zeros must be; inputs that are no whole number of groups give a shape of no numbers."""
    outputs, inputs = shape
    groups = inputs // (group or inputs) if inputs and inputs % (group or inputs) == 0 else 0
    return {"scales": Part((groups, outputs), FLOATS), "qzeros": Part((groups, words_of(outputs, bits)), WORDS)}


def _selected(codes: torch.Tensor, scales: torch.Tensor, points: torch.Tensor, rows: Rows) -> Groups:
    """Take rows, and make the numbers contiguous and float32."""
    return Groups(codes[rows].contiguous(), scales[rows].float().contiguous(), points[rows].float())
