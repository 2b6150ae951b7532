"""The watch on an engine with tiers: it looks at what is moved as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import outcome
import trio

from actors.core.events import AuditFailed, Preempted, StepBegins, StepEnded, TransferBegins, TransferEnded
from actors.core.observer import Observer
from actors.core.slot_views import SlotView
from actors.kv.waiting_blocks import SlotBlock
from actors.manager.slot_manager import SlotManager
from runtime.kv.blocks import BLOCK_TOKENS, BlockKey
from runtime.kv.pages import PAGE_TOKENS, pages_for
from runtime.step.executor import transfer_all
from runtime.step.transfer import Copy, CopyPage, KVData, Load, LoadState, SaveState, Transfer
from runtime.testing.faults import Chaos
from runtime.testing.simulated import SimulatedDrafter, pack_state
from tests.sim.books import Owner
from tests.sim.executor import TimedExecutor
from tests.sim.history import Truth
from tests.sim.kv.device import KVModel, pack, pack_layers, unpack
from tests.sim.kv.isolation import Isolation
from tests.sim.kv.lies import CLEAN, Taint
from tests.sim.kv.published import Published
from tests.sim.watch import Watch


@dataclass(frozen=True, slots=True)
class Moved:
    """The transfers between two steps, and when they were done."""

    finished_at: float
    transfers: tuple[Transfer, ...]


class KVExecutor(TimedExecutor):
    """An executor whose transfers take time by their blocks, and of whose saved blocks some are lies.

    Args:
        model: the target, which knows the lies.
        drafter, layer_seconds, chaos: as for `TimedExecutor`.
        block_seconds: how long the transfer of one block takes.

    Attributes:
        saved: the blocks that are copied out of their slots now, by the first transfers.
    """

    def __init__(
        self,
        model: KVModel,
        drafter: SimulatedDrafter | None,
        layer_seconds: Callable[[int], float],
        chaos: Chaos,
        block_seconds: float,
    ) -> None:
        super().__init__(model, drafter, layer_seconds, chaos)
        self.saved: tuple[BlockKey, ...] = ()
        self._model = model
        self._block_seconds = block_seconds

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV, and lie about some of it."""
        seconds = self._block_seconds * sum(_tokens_of(transfer) for transfer in transfers) / BLOCK_TOKENS
        # Who is cancelled may have to wait for this, as for a step.
        self.longest_layer = max(self.longest_layer, seconds / self._model.num_layers)
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        self._model.saved_taints.clear()
        results = transfer_all(self.target, self.drafter, transfers)
        keys, self.saved = chain(self.saved, repeat(None)), ()
        return [self._told(*moved) for moved in zip(transfers, results, keys, strict=False)]

    def _told(
        self, transfer: Transfer, result: outcome.Outcome[KVData | None], key: BlockKey | None
    ) -> outcome.Outcome[KVData | None]:
        """Return what a tier is given of a block that was copied out of its slot: sometimes a lie."""
        if key is None or isinstance(result, outcome.Error):
            return result
        data = result.unwrap()  # which can be done once
        assert data is not None
        taint = self._model.saved_taints[transfer]
        told = self._model.lies.save(key, unpack(data), taint)
        if told == unpack(data):
            return outcome.Value(data)
        if isinstance(transfer, SaveState):
            return outcome.Value(pack_state(*told))
        return outcome.Value(pack_layers(told, windows=len(data) > 1) if self._model.ring else pack(told))


class KVRecord(Observer):
    """Record of what is moved, and of whom a lie has deceived.

    Attributes:
        moves: what was moved, in order.
        is_moving: whether the device moves KV now.
        deceived: generations whose tokens were drawn from tainted KV.
    """

    def __init__(self, watch: KVWatch) -> None:
        self.moves: list[Moved] = []
        self.is_moving = False
        self.deceived: set[Owner] = set()
        self._model = watch.model
        self._device = watch.device
        self._steps = watch.steps
        self._watch = watch
        self._transfers: tuple[Transfer, ...] = ()
        self._preempted: set[Owner] = set()

    def transfer_begins(self, event: TransferBegins) -> None:
        """Note what is moved, and which blocks are saved by it."""
        self.is_moving, self._transfers = True, event.transfers
        self._device.saved = tuple(block.key for block in event.saved)

    def transfer_ended(self, event: TransferEnded) -> None:
        """Add it to the record."""
        self.is_moving = False
        self.moves.append(Moved(trio.current_time(), self._transfers))

    def preempted(self, event: Preempted) -> None:
        """Note who may read its own output again, which a lie may have made what it is."""
        self._preempted.add(event.key)

    def audit_failed(self, event: AuditFailed) -> None:
        """Note that no lie about one of these blocks may be left."""
        self._model.lies.find(event.keys)

    def step_ended(self, event: StepEnded) -> None:
        """Note who was deceived in it."""
        for run in () if event.drafting else self._steps[-1].runs:
            if self._model.taint(self._watch.manager.table.slot(run.slot).pages, 0, run.start + run.rows):
                self.deceived.add(run.owner)
            elif not run.start and run.owner not in self._preempted:  # read again, from a clean state
                self.deceived.discard(run.owner)


class KVInvariants(Observer):
    """I2, I3 and I12 for what is moved, and I10.

    Blocks that wait to be saved are still in their slot, whole, and nothing is written there before they are saved;
    what a copy reads is committed in its source; what is moved into a slot follows what is committed there.  What an
    audit has found wrong is used no more, wherever it went.
    """

    def __init__(self, watch: KVWatch) -> None:
        self._watch = watch
        self._books = watch.books
        self._cache = watch.manager.cache
        self._table = watch.manager.table
        self._violated = watch.violated
        self._model = watch.model
        self._truth = watch.truth

    def step_begins(self, event: StepBegins) -> None:
        """Check the slots that are written to, and all that waits to be saved."""
        for part in event.parts:
            self._may_be_written(part.slot)
        self._check_displaced()
        self._check_i10()

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check what is moved, and all that waits to be saved."""
        self._check_displaced()
        self._check_i10()
        for transfer in event.transfers:
            if isinstance(transfer, Load):
                self._check_target(transfer.slot)
                self._check_load(transfer)
            elif isinstance(transfer, Copy):
                self._check_target(transfer.slot)
                self._check_copy(transfer)

    def _check_i10(self) -> None:
        found = self._model.lies.found
        if not found:
            return
        for slot in self._table.places:
            if self._model.taint(slot.pages, 0, len(slot.tokens)) & found and not slot.suspect:
                self._violated(f"I10: slot {slot.id} holds KV that was found wrong, and is not suspected")
            states = [buffer for buffer in slot.states.values() if self._model.state_taints[buffer] & found]
            if states and not slot.suspect:
                self._violated(f"I10: slot {slot.id} has states that were found wrong, and is not suspected")
            for block in self._cache.waiting.of(slot.id):
                if self._taint_of(slot, block) & found:
                    self._violated(f"I10: slot {slot.id}: KV that was found wrong waits to be kept")
        for key in self._model.lies.keys:
            kept = self._cache.tiers.ram.get(key)
            if kept is not None and self._model.lies.taint(unpack(kept.data)) & found:
                self._violated("I10: KV that was found wrong is kept in memory")

    def _check_displaced(self) -> None:
        """I3 for what was displaced, until it is saved."""
        for slot in self._table.places:
            if slot.before is not None:
                self._truth.rows(slot.before.tokens, ("before", slot.id))  # so that its blocks are known
            for block in self._cache.waiting.of(slot.id):
                end = block.start + len(block.token_ids)
                rows = self._model.rows(slot.pages, block.start, end)
                if self._taint_of(slot, block):
                    continue  # its ring may have the true rows of another slot
                if block.buffer is not None:
                    self._check_state(slot, block, block.buffer)
                    continue
                if block.whole and self._model.lost(slot.id, slot.pages, block.start, end):
                    self._violated(f"I12: slot {slot.id}: a block that is to be saved whole has left the ring")
                if self._watch.kv_is_exact and rows != self._truth.rows_of(block):
                    self._violated(f"I3: slot {slot.id}: a block that is still to be saved was overwritten")

    def _taint_of(self, slot: SlotView, block: SlotBlock) -> Taint:
        if block.buffer is None:
            return self._model.taint(slot.pages, block.start, block.end)
        return self._model.state_taints[block.buffer] if slot.has_state(block.start, block.buffer) else CLEAN

    def _check_state(self, slot: SlotView, block: SlotBlock, buffer: int) -> None:
        """I38 for a state that is to be kept: the block before it says which it is, unless that is a tail."""
        if block.start % BLOCK_TOKENS or not slot.has_state(block.start, buffer):
            return
        if self._model.buffers[buffer] != self._truth.block(block.parent)[-1]:
            self._violated(f"I38: slot {slot.id}: what waits as the state of {block.start} tokens is another")

    def _check_target(self, slot: int) -> None:
        self._may_be_written(slot)
        holder = self._books.holder(slot)
        if holder is None or holder.cancelled_at is not None:
            self._violated(f"I2: KV is moved into slot {slot} for nobody")

    def _check_load(self, load: Load) -> None:
        if self._model.lies.taint(unpack(load.data)) & self._model.lies.found:
            self._violated(f"I10: KV that was found wrong is loaded into slot {load.slot}")

    def _check_copy(self, copy: Copy) -> None:
        if self._model.taint(copy.source_pages, 0, copy.end) & self._model.lies.found:
            self._violated(f"I10: KV that was found wrong is copied into slot {copy.slot}")
        if copy.end > len(self._table.slot(copy.source).tokens):
            self._violated(f"I3: slot {copy.source}: copied is what is not there")
        slot = self._table.slot(copy.slot)
        have = len(slot.tokens)
        if (
            copy.start > have
            and copy.pages.pages[pages_for(have) : copy.start // PAGE_TOKENS]
            != (copy.source_pages.pages[pages_for(have) : copy.start // PAGE_TOKENS])
        ):
            self._violated(f"I3: slot {copy.slot}: a copy goes on behind what the slot neither has nor shares")
        rings = self._model.rings
        if rings is not None and copy.least is not None:
            first = max(0, copy.least - rings.widest + 1)
            is_true = not self._model.taint(copy.source_pages, 0, copy.end)
            if is_true and self._model.lost(copy.source, copy.source_pages, first, copy.end):
                self._violated(f"I12: slot {copy.source}: what its ring has lost is copied")

    def _may_be_written(self, slot: int) -> None:
        if self._cache.waiting.any_of(slot):
            self._violated(f"I3: slot {slot} is written to before all of it is saved")


class KVWatch(Watch):
    """Watch of a simulation over an engine with tiers.

    Args:
        model, layer_seconds, chaos, truth, drafter: as for `Watch`.
        block_seconds: how long the transfer of one block takes.
    """

    model: KVModel
    device: KVExecutor
    isolated = False  # whether owners share no KV

    def __init__(
        self,
        model: KVModel,
        layer_seconds: Callable[[int], float],
        chaos: Chaos | None,
        truth: Truth,
        block_seconds: float,
        drafter: SimulatedDrafter | None = None,
    ) -> None:
        self._block_seconds = block_seconds
        super().__init__(model, layer_seconds, chaos, truth, drafter)
        self.kv_record = KVRecord(self)

    def _open_device(self, layer_seconds: Callable[[int], float]) -> KVExecutor:
        return KVExecutor(self.model, self.drafter, layer_seconds, self.chaos, self._block_seconds)

    @property
    def moved(self) -> list[Moved]:
        """Return what was moved, in order."""
        return self.kv_record.moves

    @property
    def transfers(self) -> list[Transfer]:
        """All of them, in order."""
        return [transfer for moved in self.moved for transfer in moved.transfers]

    @property
    def is_moving(self) -> bool:
        """Return whether the device moves KV now."""
        return self.kv_record.is_moving

    @property
    def deceived(self) -> set[Owner]:
        """Generations whose tokens were drawn from tainted KV."""
        return self.kv_record.deceived

    def look_at(self, manager: SlotManager) -> tuple[Observer, ...]:
        """Return all that are to observe the engine of `manager`, in this order."""
        first = super().look_at(manager)
        self.published = Published(manager, self.violated)
        self._observers = (*first, self.kv_record, KVInvariants(self), self.published)
        if self.isolated:
            self._observers += (Isolation(manager.table, self.violated),)
        return self._observers


def _tokens_of(transfer: Transfer) -> int:
    if isinstance(transfer, CopyPage):
        return transfer.rows
    if isinstance(transfer, SaveState | LoadState):
        return BLOCK_TOKENS
    return transfer.data.shape[-2] if isinstance(transfer, Load) else transfer.end - transfer.start
