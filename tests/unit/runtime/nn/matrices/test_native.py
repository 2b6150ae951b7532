"""Matrices described to the kernels: their own memory, and no copy of it."""

from __future__ import annotations

from ctypes import addressof

import pytest
import torch

from runtime.devices.native.structures import Kind
from runtime.nn.matrices.int8 import WeightInt8
from runtime.nn.matrices.linear import Linear, PlainMatrix
from runtime.nn.matrices.native import NotInKernels, native_matrices, native_matrix


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (torch.float32, Kind.ROWS_OF_FLOAT32),
        (torch.bfloat16, Kind.ROWS_OF_BFLOAT16),
        (torch.float16, Kind.ROWS_OF_FLOAT16),
    ],
)
def test_a_plain_weight_is_read_where_it_is(dtype: torch.dtype, kind: Kind) -> None:
    weight = torch.zeros(32, 48, dtype=dtype)
    own = native_matrix(Linear(PlainMatrix(weight, None)))
    described = own.described
    assert (described.weight, described.kind) == (weight.data_ptr(), kind)
    assert (described.out, described.in_, own.piece, own.block) == (32, 48, 16, None)
    assert described.bias is None


def test_eight_bits_are_read_where_they_are() -> None:
    matrix = WeightInt8(torch.ones(16, 32), None)
    described = native_matrix(Linear(matrix)).described
    weight, scales = matrix.quantised
    assert (described.weight, described.scales) == (weight.data_ptr(), scales.data_ptr())
    assert described.kind == Kind.ROWS_OF_INT8


def test_a_bias_is_kept_in_float32() -> None:
    own = native_matrix(Linear(PlainMatrix(torch.zeros(16, 16, dtype=torch.bfloat16), torch.ones(16).bfloat16())))
    assert own.kept is not None
    assert own.described.bias == own.kept.data_ptr()
    assert torch.equal(own.kept, torch.ones(16))


def test_what_is_not_in_whole_vectors_is_refused() -> None:
    for shape in ((24, 32), (32, 24)):
        with pytest.raises(NotInKernels, match="size"):
            native_matrix(Linear(PlainMatrix(torch.zeros(*shape), None)))


def test_a_weight_that_does_not_lie_in_order_is_refused() -> None:
    with pytest.raises(NotInKernels, match="in order"):
        native_matrix(Linear(PlainMatrix(torch.zeros(32, 16).T, None)))


def test_of_several_formats_each_refers_to_the_next() -> None:
    linear = Linear(*(PlainMatrix(torch.zeros(rows, 16), None) for rows in (16, 32, 48)))
    parts = native_matrices(linear.matrices)
    assert [part.described.out for part in parts] == [16, 32, 48]
    assert [part.described.next for part in parts] == [addressof(part.described) for part in parts[1:]] + [None]
    with pytest.raises(NotInKernels, match="several"):
        native_matrix(linear)
