"""FP8 as DeepSeek's and Mistral's files have it: numbers of eight bits (E4M3), of which blocks share a scale.

A matrix `weight` is multiplied with the `weight_scale_inv` beside it, whatever that name says: a number for each
block, or one for all.  So is a stack of experts, `gate_up_proj`, with `gate_up_proj_scale_inv`; without blocks, its
gate and up may have a number each.  Scales of activations are for products of FP8 by FP8, and left out: rows stay as
they are.

Sources: transformers' `integrations/finegrained_fp8.py`; E4M3: Micikevicius et al., arXiv 2209.05433.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from runtime.checkpoint.folder.plain import FLOAT_BYTES
from runtime.checkpoint.json_fields import invalid
from runtime.checkpoint.stored import ALL, WithoutCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows, StoredTensor

    Block = tuple[int, int]

_NUMBERS = "F8_E4M3"
_SCALES, _OF_ACTIVATIONS = "_scale_inv", ("activation_scale", "input_scale")
_BLOCK = [128, 128]  # where config.json does not say


@dataclass(frozen=True, slots=True)
class Fp8Tensor(WithoutCodes):
    """A matrix, or a stack of them.

    Attributes:
        numbers: its tensor in the file.
        scales: the blocks'.
        block: outputs and inputs of a block.
    """

    FORM: ClassVar = "FP8"

    numbers: StoredTensor
    scales: StoredTensor
    block: Block

    @property
    def file(self) -> str:
        """The file's name."""
        return self.numbers.file

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs and inputs; before these, of a stack, the experts."""
        return self.numbers.shape

    @property
    def form(self) -> str:
        """The format's name."""
        return self.FORM

    @property
    def num_bytes(self) -> int:
        """Size in the file."""
        return self.numbers.num_bytes + self.scales.num_bytes

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows as float32."""
        import torch

        *experts, outputs, inputs = self.shape
        high, wide = _blocks(self.shape, self.block)
        read = torch.arange(math.prod(experts) * outputs)[rows if isinstance(rows, slice) else list(rows)]
        own = read // outputs * high + read % outputs // self.block[0]
        scales = self.scales.expand().float().view(-1, wide)[own].repeat_interleave(self.block[1], dim=1)[:, :inputs]
        numbers = self.numbers.expand(rows).float().view(-1, inputs).mul_(scales)
        return numbers.view(self.shape) if rows == ALL else numbers


class Fp8:
    """Quantisation of the matrices of a folder: those with scales as above, the others not at all.

    Args:
        entry: of config.json.

    Raises:
        CheckpointError: it asks for blocks that are none.
    """

    def __init__(self, entry: Settings) -> None:
        block = entry.get("weight_block_size", _BLOCK)
        if block is not None and not (
            isinstance(block, list) and len(block) == 2 and all(isinstance(size, int) and size > 0 for size in block)
        ):
            raise invalid("weight_block_size", block, "is not two whole numbers from 1 up")
        self._block: Block | None = None if block is None else (block[0], block[1])

    def assemble(self, found: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """Put numbers and scales together under the numbers' name; all else stays as it is.

        Raises:
            CheckpointError: a matrix is missing, or its scales do not go with it.
        """
        whole = {name: tensor for name, tensor in found.items() if not name.endswith((_SCALES, *_OF_ACTIVATIONS))}
        for name, scales in found.items():
            if name.endswith(_SCALES):
                numbers = name.removesuffix(_SCALES)
                whole[numbers] = self._matrix(numbers, found.get(numbers), scales)
        return whole

    def _matrix(self, name: str, numbers: StoredTensor | None, scales: StoredTensor) -> Fp8Tensor:
        if numbers is None:
            raise CheckpointError(f"{scales.file}: {name} is missing beside {name}{_SCALES}")
        shape, parts = numbers.shape, scales.shape
        of_form = numbers.form == _NUMBERS and scales.form in FLOAT_BYTES and len(shape) in (2, 3)
        if of_form and 0 not in (*shape, *parts):
            # Without blocks a matrix has one scale, or one for each of two halves.
            block = self._block or (max(1, shape[-2] // (parts[-2] if len(parts) > 1 else 1)), shape[-1])
            grid = (*shape[:-2], *_blocks(shape, block))
            if parts == grid or (grid == (1, 1) and math.prod(parts) == 1):
                return Fp8Tensor(numbers, scales, block)
        raise CheckpointError(
            f"{numbers.file}: {name} is {numbers.form} {list(numbers.shape)} and {name}{_SCALES} "
            f"{scales.form} {list(scales.shape)}, which do not make {Fp8Tensor.FORM} in blocks of {self._block}"
        )


def _blocks(shape: tuple[int, ...], block: Block) -> Block:
    """Return how many blocks a matrix has, the last of which may be smaller."""
    return -(-shape[-2] // block[0]), -(-shape[-1] // block[1])
