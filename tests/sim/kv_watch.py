"""A watch that looks at transfers as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome
import trio

from runtime.kv.blocks import BLOCK_TOKENS
from runtime.step.transfer import Copy, Load, Save
from tests.sim.kv_device import pack, unpack
from tests.sim.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import torch

    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey
    from runtime.step.executor import LayerHook
    from runtime.step.step import Segment, StepResult
    from runtime.step.transfer import Transfer
    from runtime.testing.faults import Chaos
    from runtime.testing.simulated import SimulatedDrafter
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
    what a copy reads is committed in its source; what is moved into a slot follows what is committed there.  What an
    audit has found wrong is used no more, wherever it went (I10).

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
        self.deceived: set[tuple[str, int]] = set()  # generations whose tokens were drawn from tainted KV

    @property
    def transfers(self) -> list[Transfer]:
        """All of them, in order."""
        return [transfer for moved in self.moved for transfer in moved.transfers]

    def look_at_cache(self, cache: PrefixCache) -> None:
        """Count as work what somebody waits for, not what a disk goes on reading for nobody.  Note what is found."""
        fetch, condemn = cache.fetch, cache.verdicts.condemn

        def watched_condemn(keys: Collection[BlockKey]) -> None:
            self._model.lies.find(keys)
            condemn(keys)

        async def watched_fetch(keys: Sequence[BlockKey]) -> list[Block]:
            with self.activity.going_on():
                return await fetch(keys)

        cache.fetch = watched_fetch  # type: ignore[method-assign]
        cache.verdicts.condemn = watched_condemn  # type: ignore[method-assign]

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        self.invariants.between()
        self._look_at_slots()
        self._check_i10()
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
        done = [self._told(transfer, outcome.capture(self.device._model.transfer, transfer)) for transfer in transfers]
        self.moved.append(Moved(self.clock(), tuple(transfers)))
        self.invariants.moved()
        return done

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        for segment in segments:
            self._may_be_written(segment.slot)
        self._look_at_slots()
        self._check_i10()
        result = await super().run_step(segments, drafting=drafting, layer_done=layer_done)
        for run in [] if drafting else self.steps[-1].runs:
            if self._model.taint(run.slot, 0, run.start + run.rows):
                self.deceived.add(run.owner)
            elif not run.start:  # read again, from a clean state
                self.deceived.discard(run.owner)
        return result

    def _told(
        self, transfer: Transfer, result: outcome.Outcome[torch.Tensor | None]
    ) -> outcome.Outcome[torch.Tensor | None]:
        """What is kept of a block that was copied out of its slot: sometimes a lie."""
        if not isinstance(transfer, Save) or isinstance(result, outcome.Error):
            return result
        taken = self.manager.cache.waiting._taken
        key = next((block.key for slot, block in taken if (slot, block.start) == (transfer.slot, transfer.start)), None)
        data = result.unwrap()  # which can be done once
        if key is None or data is None:
            return outcome.Value(data)
        taint = self._model.taint(transfer.slot, transfer.start, transfer.end)
        return outcome.Value(pack(self._model.lies.save(key, unpack(data), taint)))

    def _check_i10(self) -> None:
        """What an audit has found wrong is used no more, wherever it went."""
        found, cache = self._model.lies.found, self.manager.cache
        if not found:
            return
        for slot in self.manager.table._slots:
            if self._model.taint(slot.id, 0, len(slot.tokens)) & found and not slot.suspect:
                self.invariants.violated(f"I10: slot {slot.id} holds KV that was found wrong, and is not suspected")
            for block in cache.waiting.of(slot.id):
                if self._model.taint(slot.id, block.start, block.start + BLOCK_TOKENS) & found:
                    self.invariants.violated(f"I10: slot {slot.id}: KV that was found wrong waits to be kept")
        for key in self._model.lies.keys:
            kept = cache.tiers.ram.get(key)
            if kept is not None and self._model.lies.taint(unpack(kept.data)) & found:
                self.invariants.violated("I10: KV that was found wrong is kept in memory")

    def _look_at_slots(self) -> None:
        """I3 for what was displaced, until it is saved."""
        for slot in self.manager.table._slots:
            if slot.before is not None:
                self.truth.rows(slot.before.tokens, ("before", slot.id))  # so that its blocks are known
            for block in self.manager.cache.waiting.of(slot.id):
                rows = self._model.kv[slot.id][block.start : block.start + BLOCK_TOKENS]
                if self._model.taint(slot.id, block.start, block.start + BLOCK_TOKENS):
                    continue
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
        if isinstance(transfer, Load) and self._model.lies.taint(unpack(transfer.data)) & self._model.lies.found:
            self.invariants.violated(f"I10: KV that was found wrong is loaded into slot {slot.id}")
        if isinstance(transfer, Copy):
            if self._model.taint(transfer.source, 0, transfer.end) & self._model.lies.found:
                self.invariants.violated(f"I10: KV that was found wrong is copied into slot {slot.id}")
            committed = len(table.slot(transfer.source).tokens)
            if transfer.end > committed:
                self.invariants.violated(f"I3: slot {transfer.source}: copied is what is not there")
            if transfer.start != len(slot.tokens):
                self.invariants.violated(f"I3: slot {slot.id}: a copy does not go on at the end")

    def _may_be_written(self, slot: int) -> None:
        if self.manager.cache.waiting.any_of(slot):
            self.invariants.violated(f"I3: slot {slot} is written to before all of it is saved")


def _tokens_of(transfer: Transfer) -> int:
    return len(transfer.data) if isinstance(transfer, Load) else transfer.end - transfer.start
