"""In how many bits the weights of a model are kept; torch is not imported."""

from __future__ import annotations

from enum import StrEnum

# Columns that are spread over each other: 128 take longer, and are no better for a real model (bench/LOG.md).
SPREAD = 64


class Quantization(StrEnum):
    """How many bits a weight has."""

    INT8 = "int8"
    INT4 = "int4"

    @property
    def identity(self) -> str:
        """What KV on disk knows it by: another one where the same bits come to mean other numbers."""
        return f"{self.value}, rows spread by {SPREAD}"
