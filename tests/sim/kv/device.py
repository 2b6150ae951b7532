"""The stand-in model with transfers that can fail, and KV that looks well and is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from runtime.step.step import SegmentOutput
from runtime.step.transfer import Copy, Load, Save
from runtime.testing.simulated import window_row
from tests.sim.device import VOCABULARY, FaultyModel, PlantedFault
from tests.sim.device import Faults as StepFaults
from tests.sim.kv.lies import CLEAN, Lies, Taint, disguise, union

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.kv.rings import Rings
    from runtime.step.step import Segment
    from runtime.step.transfer import Transfer
    from runtime.testing.simulated import SimulatedBatch

DTYPE = torch.float32

_GARBAGE = 0xBAD


def pack(rows: Sequence[int]) -> torch.Tensor:
    """Rows of KV as a block holds them, `[tokens, 4]`."""
    words = [[row >> shift & 0xFFFF for shift in (0, 16, 32, 48)] for row in rows]
    return torch.tensor(words, dtype=DTYPE).reshape(-1, 4)


def unpack(data: torch.Tensor) -> list[int]:
    """The inverse of `pack`; of a block of several layers, the first, which has no window."""
    rows = (data if data.dim() == 2 else data[0]).int().tolist()
    return [sum(word << shift for word, shift in zip(row, (0, 16, 32, 48), strict=True)) for row in rows]


def pack_layers(rows: Sequence[int], *, windows: bool) -> torch.Tensor:
    """Rows of a model with a windowed layer as a block holds them, `[layers, tokens, 4]`: right ones in all layers."""
    layers = [rows, list(map(window_row, rows))] if windows else [rows]
    return torch.stack([pack(layer) for layer in layers])


class CursedKV(PlantedFault):
    """What a step raises over KV that looks well."""


@dataclass(slots=True)
class Faults(StepFaults):
    """What is to go wrong, with KV too."""

    cursed: bool = False  # KV that is loaded now looks well, but every step over it raises
    cursed_not_finite: bool = False  # the same, but they yield NaN
    fails: Callable[[Transfer], bool] = field(default=lambda transfer: False)  # these transfers raise, half done


class KVModel(FaultyModel):
    """Knows of each row whether it does not bear a step."""

    def __init__(
        self,
        faults: Faults,
        *,
        slots: int,
        context: int,
        num_layers: int,
        vocabulary: int = VOCABULARY,
        rings: Rings | None = None,
    ) -> None:
        super().__init__(
            faults, slots=slots, context=context, num_layers=num_layers, vocabulary=vocabulary, rings=rings
        )
        self._kv_faults = faults
        self._curses = [[""] * context for _ in range(slots)]

        self.lies = Lies()
        self.taints = [[CLEAN] * context for _ in range(slots)]
        # Set where blocks may lie that the test has changed itself: the true KV of what is committed in a slot.
        self.true_rows: Callable[[int], list[int]] | None = None

    def taint(self, slot: int, start: int, end: int) -> Taint:
        """Of some rows of a slot."""
        return union(self.taints[slot][start:end]) if len(self.lies) else CLEAN

    def exact(self, slot: int, length: int) -> int:
        """How many of a slot's first rows no lie has tainted."""
        if not self.taint(slot, 0, length):
            return length
        return next(place for place, taint in enumerate(self.taints[slot]) if taint)

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Begin a step, unless KV that it stands on does not bear one."""
        batch = super().begin(segments)
        for segment in segments:
            self._curses[segment.slot][segment.start : segment.end] = [""] * len(segment.token_ids)
        if any("raises" in self._curses[segment.slot][: segment.start] for segment in segments):
            raise CursedKV("the device does not bear this KV")
        return batch

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Finish the step; what stands on cursed KV is not finite."""
        return [
            SegmentOutput(finite=False) if "not finite" in self._curses[segment.slot][: segment.start] else output
            for segment, output in zip(batch.segments, super().finish(batch), strict=True)
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move rows of KV with their taints and curses, or fail half done."""
        fails = self._kv_faults.fails(transfer)
        match transfer:
            case Save(slot, start, end, windows):
                if not fails:
                    return self._save(slot, start, end, windows=windows)
            case Load(slot, start, data, windows):
                rows = unpack(data)
                end = start + len(rows)
                self.kv[slot][start:end] = [_GARBAGE] * len(rows) if fails else rows
                if windows and self.ring and len(data) > 1:
                    self.write_windows(slot, start, [_GARBAGE] * len(rows) if fails else unpack(data[1]))
                self.taints[slot][start:end] = [self.lies.taint(rows)] * len(rows)
                self._curses[slot][start:end] = [self._curse()] * len(rows)
            case Copy(source, slot, start, end, least):
                self.kv[slot][start:end] = [_GARBAGE] * (end - start) if fails else self.kv[source][start:end]
                self.copy_windows(source, slot, end, least)
                if fails and least is not None:
                    self.write_windows(slot, max(0, end - self.ring), [_GARBAGE] * min(end, self.ring))
                self._curses[slot][start:end] = self._curses[source][start:end]
                self.taints[slot][start:end] = self.taints[source][start:end]
        if fails:
            raise PlantedFault("the device ran into a planted fault while KV was moved")
        return None

    def _save(self, slot: int, start: int, end: int, *, windows: bool) -> torch.Tensor:
        rows = pack([row & (1 << 64) - 1 for row in self.kv[slot][start:end]])
        if not self.ring:
            return rows
        seen = [pack([row & (1 << 64) - 1 for row in self.read_windows(slot, start, end)])] if windows else []
        return torch.stack([rows, *seen])

    def _write(self, segment: Segment) -> None:
        """A row depends on all before it, as attention's do: a wrong one among them makes it wrong too."""
        super()._write(segment)
        taint = self.taint(segment.slot, 0, segment.start)
        self.taints[segment.slot][segment.start : segment.end] = [taint] * len(segment.token_ids)
        if taint:
            kv = self.kv[segment.slot]
            kv[segment.start : segment.end] = [row ^ disguise(taint) for row in kv[segment.start : segment.end]]
        if self.true_rows is not None:
            kv = self.kv[segment.slot]
            pairs = zip(kv[: segment.start], self.true_rows(segment.slot), strict=True)
            wrong = sum(row ^ true for row, true in pairs) & (1 << 64) - 1
            kv[segment.start : segment.end] = [row ^ wrong for row in kv[segment.start : segment.end]]
        written = self.kv[segment.slot][segment.start : segment.end]
        self.write_windows(segment.slot, segment.start, list(map(window_row, written)))

    def curse(self, slot: int, position: int, what: str) -> None:
        """Make the KV at one position unfit for a step, which then raises ("raises") or yields NaN ("not finite")."""
        self._curses[slot][position] = what

    def _curse(self) -> str:
        if self._kv_faults.cursed:
            return "raises"
        return "not finite" if self._kv_faults.cursed_not_finite else ""
