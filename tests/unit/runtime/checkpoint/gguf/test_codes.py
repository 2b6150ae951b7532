"""Types of GGUF with codes of 4 and 6 bits: their codes stand for what the gguf library makes of the same blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

from runtime.checkpoint.gguf.codes import CODED_TYPES, group_codes
from runtime.checkpoint.gguf.tensors import CODE_FORMATS

ROWS, COLUMNS = 24, 1024
ALL = list(CODED_TYPES)
MXFP4 = GGMLQuantizationType.MXFP4
ONE_NUMBER = (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q6_K, MXFP4)  # for all of a block's scales, and no zeros


def _blocks(kind: GGMLQuantizationType, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Rows of blocks with every code, scale and minimum that bits can say, and numbers as those of trained weights."""
    weights, size = GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (ROWS * COLUMNS // weights, size), dtype=np.uint8)
    if kind is MXFP4:
        blocks[:, 0] %= 250  # exponents of which no number is too large
        return blocks.reshape(ROWS, -1)
    floats = 1 if kind in ONE_NUMBER else 2
    numbers = random.normal(0, 0.01, (len(blocks), floats)).astype(np.float16)
    place = slice(-2, None) if kind is GGMLQuantizationType.Q6_K else slice(2 * floats)
    blocks[:, place] = numbers.view(np.uint8)
    return blocks.reshape(ROWS, -1)


@pytest.mark.parametrize("kind", ALL)
def test_codes_stand_for_what_the_library_dequantises(kind: GGMLQuantizationType) -> None:
    """Up to the rounding of a zero in float32, half a unit in the last place of the largest number met on the way."""
    blocks = _blocks(kind)
    expected = torch.from_numpy(dequantize(blocks, kind))
    found = group_codes(kind, CODE_FORMATS[kind], blocks)
    assert (found.codes.dtype, found.codes.shape) == (torch.uint8, (ROWS, COLUMNS))
    assert found.codes.max() == (44 if kind is MXFP4 else (1 << found.bits) - 1)
    assert found.scales.shape == found.zeros.shape == (ROWS, COLUMNS // found.group)
    assert (found.scales.dtype, found.zeros.dtype) == (torch.float32, torch.float32)
    assert found.format == CODE_FORMATS[kind]
    if kind in ONE_NUMBER:
        assert torch.equal(found.expand(), expected)
        assert not found.zeros.any()
    largest = torch.maximum(8 * found.scales.abs(), found.zeros.abs()).repeat_interleave(found.group, 1)
    assert ((found.expand() - expected).abs() <= 2 * torch.finfo(torch.float32).eps * largest).all()


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1])
def test_quantised_weights_are_near_what_they_were(kind: GGMLQuantizationType) -> None:
    weights = np.random.default_rng(1).normal(0, 0.02, (ROWS, COLUMNS)).astype(np.float32)
    expanded = group_codes(kind, CODE_FORMATS[kind], quantize(weights, kind)).expand().numpy()
    assert np.linalg.norm(expanded - weights) < 0.11 * np.linalg.norm(weights)


@pytest.mark.parametrize("kind", ALL)
def test_blocks_of_a_mapped_file_are_read_and_not_changed(kind: GGMLQuantizationType) -> None:
    blocks = _blocks(kind)
    blocks.flags.writeable = False
    before = blocks.copy()
    some = group_codes(kind, CODE_FORMATS[kind], blocks[3:5])
    some.codes.zero_()
    assert np.array_equal(blocks, before)
    assert torch.equal(some.scales, group_codes(kind, CODE_FORMATS[kind], blocks).scales[3:5])
