"""A device and a disk on which the faults of a plan happen (`runtime.testing.faults`)."""

from __future__ import annotations

import errno
import itertools
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.files import block_name
from runtime.step.shortcuts import NextStep
from runtime.testing.faults import (
    BitFlip,
    DeviceError,
    DiskError,
    NotFinite,
    OutOfMemory,
    ShortWrite,
    SlowRead,
    SlowStep,
    ThreadDeath,
    TransferError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runtime.kv.blocks import Block, BlockKey
    from runtime.step.step import Segment, SegmentOutput, StepModel
    from runtime.step.transfer import Transfer
    from runtime.testing.faults import Chaos

BatchT = TypeVar("BatchT")


class PlannedFault(RuntimeError):
    """Raised by the device because a plan says so."""


class ThreadKilled(SystemExit):
    """Ends the device thread, being no Exception."""


class UnreliableModel(Generic[BatchT]):
    """A `StepModel` on which faults happen.

    Args:
        model: computes.
        chaos: of the plan.
        drafting: whether the model is the drafter.
        sleep: lets the seconds of a slow step pass; in virtual time that is not up to the device thread.
    """

    def __init__(
        self,
        model: StepModel[BatchT],
        chaos: Chaos,
        *,
        drafting: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.num_layers = model.num_layers
        self.model = model
        self._chaos = chaos
        self._drafting = drafting
        self._sleep = sleep
        self._steps = 0
        self._transfers = 0

    def begin(self, segments: Sequence[Segment]) -> BatchT:
        """Count the step, and begin it."""
        self._steps += 1
        return self.model.begin(segments)

    def shrink(self, batch: BatchT, kept: Sequence[int]) -> None:
        """Shrink the batch."""
        self.model.shrink(batch, kept)

    def run_layer(self, batch: BatchT, index: int) -> int:
        """Run a layer, unless a fault is due in it."""
        for slow in self._due(SlowStep):
            if self._is_in(slow.layer, index):
                self._chaos.fire(slow)
                self._sleep(slow.seconds)
        for death in self._due(ThreadDeath):
            if self._is_in(death.layer, index):
                self._chaos.fire(death)
                raise ThreadKilled(f"a planned death of the device thread in layer {index}")
        for error in self._due(DeviceError):
            if self._is_in(error.layer, index):
                self._chaos.fire(error)
                raise PlannedFault(f"a planned device error in layer {index}")
        for memory in self._due(OutOfMemory):
            if self._is_in(memory.layer, index):
                self._chaos.fire(memory)
                raise torch.OutOfMemoryError(f"a planned lack of memory in layer {index}")
        return self.model.run_layer(batch, index)

    def abandon(self, batch: BatchT) -> None:
        """Abandon the step."""
        self.model.abandon(batch)

    def finish(self, batch: BatchT) -> list[SegmentOutput]:
        """Finish the step; segments that a fault names are not finite."""
        outputs = self.model.finish(batch)
        for fault in self._due(NotFinite):
            self._chaos.fire(fault)
            place = fault.segment % len(outputs)
            outputs[place] = replace(outputs[place], finite=False, tokens=())
        return outputs

    def begin_next(self, batch: BatchT) -> int:
        """Begin the next step, where the model can; it is counted once it is asked for."""
        return self.model.begin_next(batch) if isinstance(self.model, NextStep) else 0

    def drop_next(self) -> None:
        """Drop the next step, where the model has begun it."""
        if isinstance(self.model, NextStep):
            self.model.drop_next()

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move KV, unless a fault is due."""
        self._transfers += 1
        for fault in self._chaos.due(TransferError, self._transfers):
            self._chaos.fire(fault)
            raise PlannedFault("a planned error while KV was moved")
        return self.model.transfer(transfer)

    def _due(self, kind: type[Any]) -> list[Any]:
        return self._chaos.due_at_step(kind, self._steps, drafting=self._drafting)

    def _is_in(self, layer: int, index: int) -> bool:
        return index == min(layer, self.num_layers - 1)


class UnreliableBlocks(DiskBlocks):
    """Files on a disk that refuses writes, loses parts of what it said it had, or lets who reads wait.

    Args:
        folder, root, shape, dtype, budget, part, state_bytes: as for `DiskBlocks`.
        chaos: of the plan.
        sleep: as for `UnreliableModel`, of a slow read.
    """

    def __init__(
        self,
        folder: int,
        root: BlockKey,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        budget: int,
        part: tuple[int, ...] | None = None,
        state_bytes: int = 0,
        *,
        chaos: Chaos,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._chaos = chaos
        self._sleep = sleep
        self._writes = 0
        self._reads = itertools.count(1)  # by several threads
        super().__init__(folder, root, shape, dtype, budget, part, state_bytes)

    def load(self, key: BlockKey) -> Block | None:
        """Read a block, late where a fault says so."""
        for slow in self._chaos.due(SlowRead, next(self._reads)):
            self._chaos.fire(slow)
            self._sleep(slow.seconds)
        return super().load(key)

    def write(self, block: Block, wanted: Callable[[], bool]) -> bool:
        """Write a block, or refuse to, or spoil it afterwards."""
        self._writes += 1
        for error in self._chaos.due(DiskError, self._writes):
            self._chaos.fire(error)
            raise OSError(errno.EIO, "a planned error")
        written = super().write(block, wanted)
        if written:
            self._spoil(block_name(block.key, block.parent))
        return written

    def _spoil(self, name: str) -> None:
        for short in self._chaos.due(ShortWrite, self._writes):
            self._chaos.fire(short)
            with self._opened(name) as file:
                os.ftruncate(file, max(0, os.fstat(file).st_size - short.lost))
        for flip in self._chaos.due(BitFlip, self._writes):
            self._chaos.fire(flip)
            with self._opened(name) as file:
                _flip(file, flip.bit)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        file = os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=self._folder)
        try:
            yield file
        finally:
            os.close(file)


def _flip(file: int, bit: int) -> None:
    size = os.fstat(file).st_size
    if not size:
        return  # nothing is left of it
    place, shift = divmod(bit % (8 * size), 8)
    os.pwrite(file, bytes([os.pread(file, 1, place)[0] ^ 1 << shift]), place)
