"""Tensors of safetensors files as they are: plain numbers, or a part of a packed matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.stored import ALL, WithoutCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from runtime.checkpoint.stored import Rows

# Bytes of a number, by safetensors' names of the dtypes: of weights, and of what packed matrices are made of.
FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
ITEM_BYTES = {**FLOAT_BYTES, "I64": 8, "I32": 4, "U32": 4, "I8": 1, "U8": 1, "F8_E4M3": 1}


@dataclass(frozen=True, slots=True)
class PlainTensor(WithoutCodes):
    """A tensor as its file's header describes it.

    Attributes:
        path: of the file.
        form: safetensors' name of the dtype.
        shape: PyTorch's.
        offset: of its first byte in the file.
    """

    path: Path
    form: str
    shape: tuple[int, ...]
    offset: int

    @property
    def file(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def num_bytes(self) -> int:
        """Size in the file."""
        return math.prod(self.shape) * ITEM_BYTES[self.form]

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows in the file's dtype, float64 as float32, and 32 bits without a sign as int32.

        The file is read, not mapped: what is mapped counts as this process's memory.
        """
        import torch

        floats = {
            "F8_E4M3": torch.float8_e4m3fn,
            "F64": torch.float64,
            "F32": torch.float32,
            "F16": torch.float16,
            "BF16": torch.bfloat16,
        }
        whole = {"I64": torch.int64, "I32": torch.int32, "U32": torch.int32, "I8": torch.int8, "U8": torch.uint8}
        if not isinstance(rows, slice):  # the rows between are read along
            first = min(rows)
            return self.expand(slice(first, max(rows) + 1))[[row - first for row in rows]]
        columns = self.shape[-1] if len(self.shape) > 1 else 1
        start, stop, _ = rows.indices(math.prod(self.shape) // columns)
        size = columns * ITEM_BYTES[self.form]
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset + start * size)
                data = bytearray((stop - start) * size)
                read = file.readinto(data)
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be read: {error}") from error
        if read != len(data):
            raise CheckpointError(f"{self.path}: cannot be read: it ends within a tensor")
        numbers = torch.frombuffer(data, dtype=(floats | whole)[self.form])
        numbers = numbers.float() if self.form == "F64" else numbers
        if rows == ALL:
            return numbers.view(self.shape)
        return numbers.view(-1, columns) if len(self.shape) > 1 else numbers
