"""FP8 as DeepSeek's and Mistral's files have it: numbers of eight bits (E4M3), of which blocks share a scale.

A module's `weight` is multiplied with the `weight_scale_inv` beside it, whatever that name says: a number for each
block, or one for all.  Scales of activations are for products of FP8 by FP8, and left out: rows here are not rounded.

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
_WEIGHT, _SCALES = ".weight", ".weight_scale_inv"
_OF_ACTIVATIONS = (".activation_scale", ".input_scale")
_BLOCK = [128, 128]  # where config.json does not say


@dataclass(frozen=True, slots=True)
class Fp8Tensor(WithoutCodes):
    """A matrix.

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
        """Outputs, inputs."""
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

        outputs, inputs = self.shape
        read = torch.arange(outputs)[rows if isinstance(rows, slice) else list(rows)]
        scales = self.scales.expand().float().view(_blocks(self.shape, self.block))[read // self.block[0]]
        return self.numbers.expand(rows).float().mul_(scales.repeat_interleave(self.block[1], dim=1)[:, :inputs])


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
        self._block = block

    def assemble(self, found: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        """Put numbers and scales together as the module's `weight`; all else stays as it is.

        Raises:
            CheckpointError: a matrix is missing, or its scales do not go with it.
        """
        whole = {name: tensor for name, tensor in found.items() if not name.endswith((_SCALES, *_OF_ACTIVATIONS))}
        for name, scales in found.items():
            if name.endswith(_SCALES):
                module = name.removesuffix(_SCALES)
                whole[module + _WEIGHT] = self._matrix(module, found.get(module + _WEIGHT), scales)
        return whole

    def _matrix(self, module: str, numbers: StoredTensor | None, scales: StoredTensor) -> Fp8Tensor:
        if numbers is None:
            raise CheckpointError(f"{scales.file}: {module}{_WEIGHT} is missing beside {module}{_SCALES}")
        if (
            numbers.form == _NUMBERS
            and len(numbers.shape) == 2
            and scales.form in FLOAT_BYTES
            and 0 not in numbers.shape
        ):
            outputs, inputs = numbers.shape
            block = (outputs, inputs) if self._block is None else (self._block[0], self._block[1])
            blocks = _blocks(numbers.shape, block)
            if scales.shape == blocks or (self._block is None and math.prod(scales.shape) == 1):
                return Fp8Tensor(numbers, scales, block)
        raise CheckpointError(
            f"{numbers.file}: {module}{_WEIGHT} is {numbers.form} {list(numbers.shape)} and {module}{_SCALES} "
            f"{scales.form} {list(scales.shape)}, which do not make {Fp8Tensor.FORM} in blocks of {self._block}"
        )


def _blocks(shape: tuple[int, ...], block: Block) -> Block:
    """Return how many blocks there are, the last of which may be smaller."""
    return -(-shape[0] // block[0]), -(-shape[1] // block[1])
