"""Numbers that go to the device together come out one by one."""

from __future__ import annotations

from array import array

import pytest
import torch

from runtime.sampling.parcel import Parcel
from tests.fakes.mps import MPS, fake_mps
from tests.models.step_driver import CPU


def test_each_part_is_what_was_put_in() -> None:
    parcel = Parcel()
    tokens = parcel.ints([5, -1, 2**40])
    numbers = parcel.floats([0.1, float("inf")], array("f", [2.5]) * 2)
    nothing, joined = parcel.ints(), parcel.ints(range(3), (), (7,))
    parcel.send(CPU)
    for part, expected in ((tokens, [5, -1, 2**40]), (nothing, []), (joined, [0, 1, 2, 7])):
        assert part.tensor.dtype == torch.int64
        assert part.tensor.tolist() == expected
    assert torch.equal(numbers.tensor, torch.tensor([0.1, float("inf"), 2.5, 2.5]))
    assert numbers.column.shape == (4, 1)


def test_a_part_cannot_be_read_before_it_is_sent() -> None:
    with pytest.raises(AttributeError):
        _ = Parcel().ints([1]).tensor


def test_a_parcel_is_one_copy_of_each_type() -> None:
    with fake_mps() as traffic:
        parcel = Parcel()
        parts = [*(parcel.ints([i]) for i in range(9)), parcel.ints()]
        parcel.send(MPS)
        assert len(traffic.sent) == 1
        parcel = Parcel()
        parts += [*(parcel.floats([i]) for i in range(9)), parcel.ints([1])]
        parcel.send(MPS)
        assert len(traffic.sent) == 3
        assert {part.tensor.device for part in parts} == {MPS}
