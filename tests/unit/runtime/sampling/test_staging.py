"""Numbers that go to the device together come out one by one."""

from __future__ import annotations

from array import array

import pytest
import torch

from runtime.sampling.staging import Readback, StagedTensor, StagingBuffer
from tests.fakes.devices.mps import MPS, fake_mps
from tests.models.step_driver import CPU


def test_each_part_is_what_was_put_in() -> None:
    staging = StagingBuffer()
    tokens = staging.ints([5, -1, 2**40])
    numbers = staging.floats([0.1, float("inf")], array("f", [2.5]) * 2)
    nothing, joined = staging.ints(), staging.ints(range(3), (), (7,))
    staging.send(CPU)
    for part, expected in ((tokens, [5, -1, 2**40]), (nothing, []), (joined, [0, 1, 2, 7])):
        assert part.tensor.dtype == torch.int64
        assert part.tensor.tolist() == expected
    assert torch.equal(numbers.tensor, torch.tensor([0.1, float("inf"), 2.5, 2.5]))
    assert numbers.column.shape == (4, 1)


def test_a_part_cannot_be_read_before_it_is_sent() -> None:
    with pytest.raises(AttributeError):
        _ = StagingBuffer().ints([1]).tensor


def test_a_buffer_is_one_copy_of_each_type() -> None:
    with fake_mps() as traffic:
        staging = StagingBuffer()
        parts = [*(staging.ints([i]) for i in range(9)), staging.ints()]
        staging.send(MPS)
        assert len(traffic.sent) == 1
        staging = StagingBuffer()
        parts += [*(staging.floats([i]) for i in range(9)), staging.ints([1])]
        staging.send(MPS)
        assert len(traffic.sent) == 3
        assert {part.tensor.device for part in parts} == {MPS}


def test_a_buffer_that_does_not_wait_has_the_same_numbers() -> None:
    staging = StagingBuffer()
    part = staging.ints([3, 4])
    staging.send(CPU, waits=False)
    assert part.tensor.tolist() == [3, 4]


def test_what_is_there_already_is_staged_as_it_is() -> None:
    numbers = torch.tensor([1, 2])
    assert StagedTensor.of(numbers).tensor is numbers


def test_the_cpu_s_numbers_are_read_at_once() -> None:
    assert Readback(torch.tensor([1.5, 2.0])).tolist() == [1.5, 2.0]


def test_a_device_s_numbers_are_waited_for_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = []

    class Event:
        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

    with fake_mps() as traffic, monkeypatch.context() as patch:
        patch.setattr(torch.mps, "Event", Event)
        numbers = torch.empty(3, device=MPS)
        readback = Readback(numbers)
        assert (log, traffic.read) == (["record"], ["aten::to"])
        assert readback.tolist() == [1, 1, 1]
        assert log == ["record", "wait"]
