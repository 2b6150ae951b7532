"""How many bits a weight has, in a module that does not import torch."""

from __future__ import annotations

from enum import StrEnum

# Columns that are rotated together: 128 take longer, and are no better for a real model (bench/LOG.md).
HADAMARD_BLOCK = 64


class Quantization(StrEnum):
    """How many bits a weight has."""

    INT8 = "int8"
    INT4 = "int4"

    @property
    def identity(self) -> str:
        """The name that KV on disk knows it by; it changes where the same bits come to mean other numbers."""
        return f"{self.value}, rows spread by {HADAMARD_BLOCK}"
