"""Matrices in the layouts of other tools, packed as their documentation says, one number at a time.

Each function makes the tensors of one module out of codes, scales and zeros.  What they stand for is computed in plain
Python's floats by whoever uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Codes = list[list[int]]


def as_words(codes: Sequence[int], bits: int) -> list[int]:
    """Lay codes one behind the other, the lowest bits first, and cut the whole into 32-bit words."""
    whole = sum(code << bits * place for place, code in enumerate(codes))
    return [whole >> 32 * word & 0xFFFFFFFF for word in range(len(codes) * bits // 32)]


def signed(words: list[list[int]]) -> torch.Tensor:
    """The same bits as int32, `[rows, words]`."""
    return torch.tensor(words, dtype=torch.int64).to(torch.int32)


def mlx_parts(codes: Codes, scales: torch.Tensor, biases: torch.Tensor, bits: int) -> dict[str, torch.Tensor]:
    """`mlx.core.quantize`: 32 / bits codes to a word, the first in its lowest bits; other bits run on over words.

    A weight is `scale * code + bias`.
    """
    words = torch.tensor([as_words(row, bits) for row in codes], dtype=torch.int64)
    return {"weight": words.to(torch.uint32), "scales": scales, "biases": biases}


def mlx_float_parts(numbers: Codes, scales: Codes, bits: int) -> dict[str, torch.Tensor]:
    """The other modes of `mlx.core.quantize`: the bits of numbers in words, and a byte for each group."""
    words = torch.tensor([as_words(row, bits) for row in numbers], dtype=torch.int64)
    return {"weight": words.to(torch.uint32), "scales": torch.tensor(scales, dtype=torch.uint8)}


def small_float(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """What bits stand for: a sign, an exponent and a mantissa, as in IEEE 754 but without infinities."""
    exponent, mantissa = divmod(code % (1 << exponent_bits + mantissa_bits), 1 << mantissa_bits)
    share, bias = mantissa / (1 << mantissa_bits), (1 << exponent_bits - 1) - 1
    size = (1 + share) * 2.0 ** (exponent - bias) if exponent else share * 2.0 ** (1 - bias)
    return -size if code >> exponent_bits + mantissa_bits else size


def gptq_parts(codes: Codes, scales: torch.Tensor, zeros: Codes, bits: int) -> dict[str, torch.Tensor]:
    """AutoGPTQ: `codes` `[out, in]` are packed along the inputs, and `zeros` `[out, groups]` along the outputs.

    A weight is `scale * (code - zero)`, where a file of the first version holds `zero` - 1.
    """
    columns = [as_words(row, bits) for row in codes]  # [out, words]
    by_group = [as_words(row, bits) for row in zip(*zeros, strict=True)]  # [groups, words]
    inputs, groups = len(codes[0]), len(zeros[0])
    return {
        "qweight": signed(columns).T.contiguous(),
        "qzeros": signed(by_group),
        "scales": scales.T.contiguous(),
        "g_idx": torch.arange(inputs, dtype=torch.int32) // (inputs // groups),
    }


def awq_parts(codes: Codes, scales: torch.Tensor, zeros: Codes) -> dict[str, torch.Tensor]:
    """AutoAWQ's GEMM version: a word has eight outputs of one input, in this order from the lowest bits up."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def words(columns: Sequence[int]) -> list[int]:
        eights = (columns[start : start + 8] for start in range(0, len(columns), 8))
        return as_words([eight[place] for eight in eights for place in order], 4)

    return {
        "qweight": signed([words(column) for column in zip(*codes, strict=True)]),
        "qzeros": signed([words(column) for column in zip(*zeros, strict=True)]),
        "scales": scales.T.contiguous(),
    }


def compressed_parts(codes: Codes, scales: torch.Tensor, zeros: Codes | None, bits: int) -> dict[str, torch.Tensor]:
    """compressed-tensors: codes and zeros, moved up so that none is below 0; zeros are packed along the outputs."""
    parts = {
        "weight_packed": signed([as_words(row, bits) for row in codes]),
        "weight_scale": scales,
        "weight_shape": torch.tensor([len(codes), len(codes[0])]),
    }
    if zeros is not None:
        by_group = signed([as_words(row, bits) for row in zip(*zeros, strict=True)])
        parts["weight_zero_point"] = by_group.T.contiguous()
    return parts
