"""MXFP4 as gpt-oss's files have it: numbers of four bits, 32 of which share a power of two.

Each matrix of a layer's experts is two tensors of bytes, `NAME_blocks`, `[experts, outputs, groups, 16]` with two
numbers to a byte, the lower half first, and `NAME_scales`, `[experts, outputs, groups]`, which are exponents.

Source: the Open Compute Project's "Microscaling Formats (MX) Specification", version 1.0, sections 5.3 and 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from runtime.checkpoint.stored import ALL, WithoutCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from runtime.checkpoint.stored import Rows, StoredTensor

_BYTES = "U8"
_BLOCKS, _SCALES = "_blocks", "_scales"
_BLOCK_BYTES = 16  # of the 32 numbers that share a scale
_BIAS = 127  # of the exponents
_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the lower three bits; the fourth is the sign


@dataclass(frozen=True, slots=True)
class Mxfp4Tensor(WithoutCodes):
    """The matrices of all experts.

    Attributes:
        blocks: the numbers' tensor in the file.
        scales: the exponents'.
    """

    FORM: ClassVar = "MXFP4"

    blocks: StoredTensor
    scales: StoredTensor

    @property
    def file(self) -> str:
        """The file's name."""
        return self.blocks.file

    @property
    def shape(self) -> tuple[int, ...]:
        """Experts, outputs, inputs."""
        *outer, groups = self.scales.shape
        return (*outer, groups * 2 * _BLOCK_BYTES)

    @property
    def form(self) -> str:
        """The format's name."""
        return self.FORM

    @property
    def num_bytes(self) -> int:
        """Size in the file."""
        return self.blocks.num_bytes + self.scales.num_bytes

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows as float32, which holds each of these numbers exactly."""
        import torch

        if not isinstance(rows, slice):  # the rows between are read along
            first = min(rows)
            return self.expand(slice(first, max(rows) + 1))[[row - first for row in rows]]
        *outer, groups = self.scales.shape
        start, stop, _ = rows.indices(math.prod(outer))
        codes = self.blocks.expand(slice(start * groups, stop * groups)).view(-1, _BLOCK_BYTES)
        exponents = self.scales.expand(slice(start, stop)).view(-1, 1).int() - _BIAS
        values = torch.tensor([*_VALUES, *(-value for value in _VALUES)])
        numbers = values[torch.stack((codes & 15, codes >> 4), dim=-1).int()].flatten(1)  # [rows * groups, 32]
        weights = torch.ldexp(numbers, exponents)
        return weights.view(self.shape) if rows == ALL else weights.view(stop - start, -1)


class Mxfp4:
    """Quantisation of the matrices of a folder: its experts as above, all else not at all."""

    def assemble(self, found: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """Put blocks and scales together as `NAME.weight`; all else stays as it is.

        Raises:
            CheckpointError: one is missing, or they do not go together.
        """
        whole = dict(found)
        for name in found:
            if name.endswith(_BLOCKS):
                module = name.removesuffix(_BLOCKS)
                blocks, scales = whole.pop(name), whole.pop(f"{module}{_SCALES}", None)
                if scales is None:
                    raise CheckpointError(f"{blocks.file}: {module}{_SCALES} is missing beside {name}")
                _check(module, blocks, scales)
                whole[f"{module}.weight"] = Mxfp4Tensor(blocks, scales)
        return whole


def _check(module: str, blocks: StoredTensor, scales: StoredTensor) -> None:
    are_bytes = blocks.form == scales.form == _BYTES
    fit = len(scales.shape) == 3 and blocks.shape == (*scales.shape, _BLOCK_BYTES) and math.prod(scales.shape) > 0
    if not (are_bytes and fit):
        raise CheckpointError(
            f"{blocks.file}: {module}{_BLOCKS} is {blocks.form} {list(blocks.shape)} and {module}{_SCALES}"
            f" {scales.form} {list(scales.shape)}, which do not make {Mxfp4Tensor.FORM}"
        )
