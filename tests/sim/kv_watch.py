"""A watch that looks at transfers as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome
import trio

from runtime.blocks import BLOCK_TOKENS
from runtime.transfer import Copy, Load, Save
from tests.sim.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from actors.prefix_cache import PrefixCache
    from runtime.blocks import Block, BlockKey
    from runtime.faults import Chaos
    from runtime.simulated import SimulatedDrafter
    from runtime.step import Segment, StepResult
    from runtime.transfer import Transfer
    from tests.sim.history import Truth
    from tests.sim.kv_device import KVModel


@dataclass(frozen=True, slots=True)
class Moved:
    """The transfers between two steps, and when they were done."""

    finished_at: float
    transfers: tuple[Transfer, ...]


class KVWatch(Watch):
    """Looks at transfers as well.

    Blocks that wait to be saved are still in their slot, whole, and nothing is written there before they are saved;
    what a copy reads is committed in its source; what is moved into a slot follows what is committed there.

    Args:
        block_seconds: how long the transfer of one block takes.
    """

    _model: KVModel

    def __init__(
        self,
        model: KVModel,
        layer_seconds: Callable[[int], float],
        chaos: Chaos | None,
        truth: Truth,
        block_seconds: float,
        drafter: SimulatedDrafter | None = None,
    ) -> None:
        super().__init__(model, layer_seconds, chaos, truth, drafter)
        self.moved: list[Moved] = []
        self.is_moving = False
        self._block_seconds = block_seconds

    @property
    def transfers(self) -> list[Transfer]:
        """All of them, in order."""
        return [transfer for moved in self.moved for transfer in moved.transfers]

    def look_at_reads(self, cache: PrefixCache) -> None:
        """Count as work what somebody waits for; what a disk goes on reading for nobody is none."""
        fetch = cache.fetch

        async def watched_fetch(keys: Sequence[BlockKey]) -> list[Block]:
            with self.activity.going_on():
                return await fetch(keys)

        cache.fetch = watched_fetch  # type: ignore[method-assign]

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        self.invariants.between()
        self._look_at_slots()
        for transfer in transfers:
            self._look_at(transfer)
        seconds = self._block_seconds * sum(_tokens_of(transfer) for transfer in transfers) / BLOCK_TOKENS
        # Who is cancelled may have to wait for this, as for a step.
        self.longest_layer = max(self.longest_layer, seconds / self.num_layers)
        self.is_moving = True
        with trio.CancelScope(shield=True), self.activity.going_on():
            await trio.sleep(seconds)
        self.is_moving = False
        done: list[outcome.Outcome[torch.Tensor | None]]
        done = [outcome.capture(self.device._model.transfer, transfer) for transfer in transfers]
        self.moved.append(Moved(self.clock(), tuple(transfers)))
        self.invariants.moved()
        return done

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        for segment in segments:
            self._may_be_written(segment.slot)
        self._look_at_slots()
        return await super().run_step(segments, drafting=drafting)

    def _look_at_slots(self) -> None:
        """I3 for what was displaced, until it is saved."""
        for slot in self.manager.table._slots:
            if slot.before is not None:
                self.truth.rows(slot.before.tokens, ("before", slot.id))  # so that its blocks are known
            for block in self.manager.cache.waiting.of(slot.id):
                rows = self._model.kv[slot.id][block.start : block.start + BLOCK_TOKENS]
                if self.kv_is_exact and rows != self.truth.block(block.key):
                    self.invariants.violated(f"I3: slot {slot.id}: a block that is still to be saved was overwritten")

    def _look_at(self, transfer: Transfer) -> None:
        table = self.manager.table
        if isinstance(transfer, Save):
            return
        slot = table.slot(transfer.slot)
        self._may_be_written(slot.id)
        alive = any(lease.slot is slot and lease.mark.at is None for lease in self.manager._leases.values())
        if not alive:
            self.invariants.violated(f"I2: KV is moved into slot {slot.id} for nobody")
        if isinstance(transfer, Copy):
            committed = len(table.slot(transfer.source).tokens)
            if transfer.end > committed:
                self.invariants.violated(f"I3: slot {transfer.source}: copied is what is not there")
            if transfer.start != len(slot.tokens):
                self.invariants.violated(f"I3: slot {slot.id}: a copy does not go on at the end")

    def _may_be_written(self, slot: int) -> None:
        if self.manager.cache.unsaved(slot):
            self.invariants.violated(f"I3: slot {slot} is written to before all of it is saved")


def _tokens_of(transfer: Transfer) -> int:
    return len(transfer.data) if isinstance(transfer, Load) else transfer.end - transfer.start
