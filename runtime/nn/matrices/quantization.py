"""Number of bits of a weight, in a module that does not import torch."""

from __future__ import annotations

from enum import StrEnum

# Columns that are rotated together: 128 take longer, and are no better for a real model (bench/LOG.md).
HADAMARD_BLOCK = 64


class Quantization(StrEnum):
    """Number of bits of a weight.

    Attributes:
        AUTO: as many as in the file: plain weights stay plain, and quantised ones quantised.
        NONE: all weights are plain, those expanded that the file has in few bits.
        INT8: 8 bits.
        INT4: 4 bits, and 8 for the head and what kernels of 4 bits do not take.
    """

    AUTO = "auto"
    NONE = "none"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def identity(self) -> str | None:
        """The name that KV on disk knows it by, None for plain weights.

        It changes where the same bits come to mean other numbers.
        """
        if self is Quantization.NONE:
            return None
        return f"{self.value}, rows spread by {HADAMARD_BLOCK}, embedding by 32"
