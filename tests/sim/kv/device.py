"""The stand-in model with transfers that can fail, and KV that looks well and is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch

from runtime.kv.blocks import BlockKey
from runtime.kv.pages import PAGE_TOKENS, PageTable
from runtime.step.step import Segment, SegmentOutput
from runtime.step.transfer import Copy, CopyPage, Load, LoadState, Save, SaveState, Transfer
from runtime.testing.simulated import SimulatedBatch, pack_state, unpack_state, window_row
from tests.sim.device import Faults as StepFaults
from tests.sim.device import FaultyModel, PlantedFault
from tests.sim.kv.lies import CLEAN, Lies, Taint, disguise, union

DTYPE = torch.float32

_GARBAGE = 0xBAD


def pack(rows: Sequence[int]) -> torch.Tensor:
    """Rows of KV as a block holds them, `[tokens, 4]`."""
    words = [[row >> shift & 0xFFFF for shift in (0, 16, 32, 48)] for row in rows]
    return torch.tensor(words, dtype=DTYPE).reshape(-1, 4)


def unpack(data: torch.Tensor) -> list[int]:
    """The inverse of `pack`; of a block of several layers, the first, which has no window; a state is one row."""
    if data.dtype == torch.uint8:
        return [unpack_state(data)]
    rows = (data if data.dim() == 2 else data[0]).int().tolist()
    return [sum(word << shift for word, shift in zip(row, (0, 16, 32, 48), strict=True)) for row in rows]


def pack_layers(rows: Sequence[int], *, windows: bool) -> torch.Tensor:
    """Rows of a model with a windowed layer as a block holds them, `[layers, tokens, 4]`: right ones in all layers."""
    layers = [rows, list(map(window_row, rows))] if windows else [rows]
    return torch.stack([pack(layer) for layer in layers])


class CursedKV(PlantedFault):
    """Error that a step raises over KV that looks well."""


@dataclass(slots=True)
class Faults(StepFaults):
    """Plan of what is to go wrong, with KV too."""

    cursed: bool = False  # KV that is loaded now looks well, but every step over it raises
    cursed_not_finite: bool = False  # the same, but they yield NaN
    fails: Callable[[Transfer], bool] = field(default=lambda transfer: False)  # these transfers raise, half done


class KVModel(FaultyModel):
    """Knows of each row whether it does not bear a step."""

    def __init__(
        self,
        faults: Faults,
        *,
        state_buffers: int = 0,
        lies: Lies | None = None,
        **sizes: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(faults, state_buffers=state_buffers, **sizes)
        self._kv_faults = faults
        # By places in the pool, like the KV.
        self._curses = [""] * self.positions
        self.lies = Lies() if lies is None else lies
        self.taints = [CLEAN] * self.positions
        self.state_taints = [CLEAN] * state_buffers
        self.saved_taints: dict[Transfer, Taint] = {}  # when each was copied: others may have come there since
        # Set where blocks may lie that the test has changed itself: the true KV of what is committed in a slot.
        self.true_rows: Callable[[int], list[int]] | None = None

    def taint(self, pages: PageTable, start: int, end: int) -> Taint:
        """Of some rows of the sequence that lies in these pages."""
        return union(self.taints[place] for place in pages.places(start, end)) if len(self.lies) else CLEAN

    def exact(self, pages: PageTable, length: int) -> int:
        """Return how many of the first rows of the sequence in these pages no lie has tainted."""
        if not self.taint(pages, 0, length):
            return length
        return next(position for position in range(length) if self.taints[pages.place(position)])

    def state_is_exact(self, buffer: int) -> bool:
        """Return whether no lie has tainted the state in a buffer."""
        return not self.state_taints[buffer]

    def may_be_tainted(self, keys: Set[BlockKey]) -> bool:
        """Return whether a lie was told about any of these blocks."""
        return not self.lies.keys.isdisjoint(keys)

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Begin a step, unless KV that it stands on does not bear one."""
        batch = super().begin(segments)
        for segment in segments:
            for place in segment.pages.places(segment.start, segment.end):
                self._curses[place] = ""
        if any("raises" in self._before(segment) for segment in segments):
            raise CursedKV("the device does not bear this KV")
        return batch

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Finish the step; what stands on cursed KV is not finite."""
        return [
            SegmentOutput(finite=False) if "not finite" in self._before(segment) else output
            for segment, output in zip(batch.segments, super().finish(batch), strict=True)
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move rows of KV with their taints and curses, or fail half done."""
        fails = self._kv_faults.fails(transfer)
        match transfer:
            case Save():
                if not fails:
                    return self._save(transfer)
            case SaveState():
                if not fails:
                    return self._save_state(transfer)
            case LoadState():
                self._load_state(transfer, fails=fails)
            case Load():
                self._load(transfer, fails=fails)
            case Copy():
                self._copy(transfer, fails=fails)
            case CopyPage():
                self._copy_page(transfer, fails=fails)
        if fails:
            raise PlantedFault("the device ran into a planted fault while KV was moved")
        return None

    def _load(self, load: Load, *, fails: bool) -> None:
        rows = unpack(load.data)
        self.put_rows(load.pages, load.start, [_GARBAGE] * len(rows) if fails else rows)
        if load.windows and self.ring and len(load.data) > 1:
            self.write_windows(load.slot, load.start, [_GARBAGE] * len(rows) if fails else unpack(load.data[1]))
        for place in load.pages.places(load.start, load.start + len(rows)):
            self.taints[place], self._curses[place] = self.lies.taint(rows), self._curse()

    def _copy(self, copy: Copy, *, fails: bool) -> None:
        source, target = (pages.places(copy.start, copy.end) for pages in (copy.source_pages, copy.pages))
        self._carry(source, target, fails=fails)
        self.copy_windows(copy.source, copy.slot, copy.end, copy.least)
        if copy.least is None:
            return
        if self.rings is not None:  # its rows may be tainted where the arena's were not copied
            first = max(0, copy.least - self.rings.widest + 1)
            taint = self.taint(copy.source_pages, 0, copy.end)
            for place in copy.pages.places(first, copy.end):
                self.taints[place] |= taint
        if fails:
            rows = min(copy.end, self.ring)
            self.write_windows(copy.slot, max(0, copy.end - self.ring), [_GARBAGE] * rows)

    def _copy_page(self, copy: CopyPage, *, fails: bool) -> None:
        source, target = (
            range(page * PAGE_TOKENS, page * PAGE_TOKENS + copy.rows) for page in (copy.source, copy.target)
        )
        self._carry(source, target, fails=fails)
        for place, to in zip(source, target, strict=True):
            self.states[to] = self.states[place]

    def _save_state(self, save: SaveState) -> torch.Tensor:
        self.saved_taints[save] = self.state_taints[save.buffer]
        return pack_state(self.buffers[save.buffer])

    def _load_state(self, load: LoadState, *, fails: bool) -> None:
        self.buffers[load.buffer] = _GARBAGE if fails else unpack_state(load.data)
        self.state_taints[load.buffer] = self.lies.taint(unpack(load.data))

    def _carry(self, source: Sequence[int], target: Sequence[int], *, fails: bool) -> None:
        """Copy rows from some places of the pool to others, with all that is known of them."""
        for place, to in zip(source, target, strict=True):
            self._curses[to], self.taints[to] = self._curses[place], self.taints[place]
            self.kv[to] = _GARBAGE if fails else self.kv[place]

    def _save(self, save: Save) -> torch.Tensor:
        rows = self.rows(save.pages, save.start, save.end)
        self.saved_taints[save] = self.taint(save.pages, save.start, save.end)
        layers = [rows]
        if self.ring and save.windows:
            layers.append(self.read_windows(save.slot, save.start, save.end))
        packed = [pack([row & (1 << 64) - 1 for row in layer]) for layer in layers]
        return torch.stack(packed) if self.ring else packed[0]

    def _write(self, segment: Segment) -> None:
        """A row depends on all before it, as attention's do: a wrong one among them makes it wrong too."""
        super()._write(segment)
        pages, start, end = segment.pages, segment.start, segment.end
        taint = self.taint(pages, 0, start)
        if segment.state is not None:
            taint |= self.state_taints[segment.state]
        for _, buffer in segment.next_states:
            self.state_taints[buffer] = taint
            self.buffers[buffer] ^= disguise(taint) if taint else 0
        for place in pages.places(start, end):
            self.taints[place] = taint
            self.kv[place] ^= disguise(taint) if taint else 0
        if self.true_rows is not None:
            pairs = zip(self.rows(pages, 0, start), self.true_rows(segment.slot), strict=True)
            wrong = sum(row ^ true for row, true in pairs) & (1 << 64) - 1
            self.put_rows(pages, start, [row ^ wrong for row in self.rows(pages, start, end)])
        self.write_windows(segment.slot, start, list(map(window_row, self.rows(pages, start, end))))

    def _before(self, segment: Segment) -> list[str]:
        """Return what curses lie on the rows before a segment's."""
        return [self._curses[place] for place in segment.pages.places(0, segment.start)]

    def curse(self, place: int, what: str) -> None:
        """Make the KV at a place of the pool unfit for a step, which "raises", or yields what is "not finite"."""
        self._curses[place] = what

    def _curse(self) -> str:
        if self._kv_faults.cursed:
            return "raises"
        return "not finite" if self._kv_faults.cursed_not_finite else ""
