"""Transfers that actors ask for: prefixes of other slots, cached blocks, and what an audit is to compare."""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import TYPE_CHECKING

import outcome

from actors.core.commands import Audit, CopyPrefix, LoadBlocks, Loaded
from actors.core.events import AuditFailed, Transferred
from actors.core.life import Event
from actors.core.slot_views import NO_STATES, Provenance
from actors.kv.planned_transfers import PlannedTransfers, end_of, places_of
from actors.kv.state_loads import StateLoads
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.cache import kv_agrees
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.core.holds import HoldRecord
    from actors.core.observer import Observers
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey
    from runtime.step.transfer import KVData

logger = logging.getLogger("cede.kv")


class TransferPlanner:
    """Plans and settles moves; called by the slot manager's task and by nobody else.

    Args:
        table, cache, observers: the manager's.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache, observers: Observers) -> None:
        self._table = table
        self._cache = cache
        self._observers = observers
        self._states: StateLoads | None = None
        if table.states is not None:
            self._states = StateLoads(table.states, cache.tiers, cache.invalidation)

    # --- before -------------------------------------------------------------------------------------------------------

    def plan(self, record: HoldRecord) -> PlannedTransfers | None:
        """Return the move that a hold wants, if it can go now; what has come to nothing meanwhile is answered."""
        command = record.pending
        if record.mark.at is not None or self._cache.waiting.any_of(record.slot.id):
            return None
        if self._table.pages.must_be_owned(record.slot) or record.needed_capacity(0) > record.slot.capacity:
            return None
        match command:
            case CopyPrefix():
                return self._plan_copy(record, command)
            case LoadBlocks():
                return self._plan_load(record, command)
            case Audit(start=start, block=block):
                windows = block.whole and start >= record.slot.windows_from
                save = Save(record.slot.id, start, start + BLOCK_TOKENS, windows, record.slot.pages)
                return PlannedTransfers(record, command, [save], record.length)
        return None

    def _plan_copy(self, record: HoldRecord, command: CopyPrefix) -> PlannedTransfers | None:
        if not self._has_prefix(record, command):
            record.clear_pending()
            command.reply.set(outcome.Value(True))
            return None
        slot, source, rings = record.slot, self._table.slot(command.source), self._table.rings
        # Of earlier pieces it is not known how much of them a tier gave; all, if any.
        staged = slot.staged if slot.stands_on else 0
        provenance = Provenance(
            tuple(source.trial),
            {key: first for key, first in source.stands_on.items() if first < command.end},
            restored_to=max(staged, min(source.restored_to, command.end)),
            # No step can write them before the copy is there.
            states={command.end: source.states[command.end]} if source.states else NO_STATES,
        )
        start, least = record.length, 0 if rings is None else max(source.least, rings.least_length(command.end))
        first, whole = self._table.pages.share(slot, source, command.end)
        pieces = [(start, first, None), (whole, command.end, least)] if first < whole else [(start, command.end, least)]
        return PlannedTransfers(
            record,
            command,
            [
                Copy(source.id, slot.id, start, end, part, source.pages, slot.pages)
                for start, end, part in pieces
                if start < end or (rings is not None and part is not None)
            ],
            command.end,
            provenance,
            least=least,
            alarms=self._cache.invalidation.alarms,
        )

    def _plan_load(self, record: HoldRecord, command: LoadBlocks) -> PlannedTransfers | None:
        blocks = self._cache.take(command.fetched)
        if self._states is not None:
            planned = self._states.plan(record, command, blocks)
            if planned is None:
                record.clear_pending()
                command.reply.set(outcome.Value(None))
            return planned
        filled = self._plan_rings(record, command, blocks)
        if not blocks or filled is None:
            record.clear_pending()
            command.reply.set(outcome.Value(None))
            return None
        keys = tuple(block.key for block in blocks)
        start, end = command.first * BLOCK_TOKENS, end_of(command, blocks)
        audited: tuple[int, Block] | None = None
        if (
            command.is_last
            and end % BLOCK_TOKENS == 0
            and self._can_audit(record, filled, end)
            and self._cache.invalidation.choose_audit()
        ):
            end -= BLOCK_TOKENS
            audited = end, blocks.pop()
        places = [start + i * BLOCK_TOKENS for i in range(len(blocks))]
        return PlannedTransfers(
            record,
            command,
            [
                Load(record.slot.id, place, block.data, windows=place >= filled, pages=record.slot.pages)
                for place, block in zip(places, blocks, strict=True)
            ],
            max(end, record.length),
            # Its ancestors too, wherever theirs came from: it may have been computed on other copies of them.
            Provenance(
                tuple(block.key for block in blocks),
                places_of(record.hold.prompt.keys[: end // BLOCK_TOKENS], 0) | places_of(keys, command.first),
                restored_to=end,
            ),
            least=self._least_after(record, command, filled, end),
            loaded=Loaded(keys, audited),
            alarms=self._cache.invalidation.alarms,
        )

    # --- what rings need ----------------------------------------------------------------------------------------------

    def _plan_rings(self, record: HoldRecord, command: LoadBlocks, blocks: Sequence[Block]) -> int | None:
        """Return the position from which on rings are filled by these blocks; None where they have not what is needed.

        Without rings that is 0, and before the last piece none.
        """
        rings, start = self._table.rings, command.first * BLOCK_TOKENS
        if rings is None:
            return 0
        end = end_of(command, blocks)
        if rings.has_full_layers and start > max(record.length, record.slot.staged):
            return None  # what came before these was dropped
        if not command.is_last:
            return end
        whole = list(takewhile(lambda block: block.whole, reversed(blocks)))
        filled = end - sum(len(block.token_ids) for block in whole)
        return filled if self._fills(record, filled, end) else None

    def _fills(self, record: HoldRecord, filled: int, end: int) -> bool:
        """Return whether a sequence can go on from `end` once rings are filled from some position on."""
        rings = self._table.rings
        return rings is None or filled <= max(record.length, rings.first_needed(end))

    def _can_audit(self, record: HoldRecord, filled: int, end: int) -> bool:
        """Return whether the last block can be left to be computed again, and will be there to be compared."""
        rings = self._table.rings
        if rings is None:
            return True
        start = end - BLOCK_TOKENS
        written = rings.least_length(len(record.hold.prompt))
        is_there = rings.has_full_layers or rings.first_kept(written) <= start
        return is_there and start > record.length and self._fills(record, filled, start)

    def _least_after(self, record: HoldRecord, command: LoadBlocks, filled: int, end: int) -> int | None:
        """Return the least length of the slot once rings are filled from some position on; None before that."""
        rings = self._table.rings
        if rings is None:
            return 0
        if not command.is_last:
            return None
        if filled <= record.length:  # it goes on from what the slot has
            return max(record.slot.least, rings.least_length(end))
        return rings.least_length_from(filled, end)

    def _has_prefix(self, record: HoldRecord, command: CopyPrefix) -> bool:
        """Return whether the source still has the prefix, from the first token on: KV depends on all before it."""
        source = self._table.slot(command.source)
        if source.suspect or source.tokens.shared_with(record.hold.prompt) < command.end:
            return False
        return command.end == source.usable(source.branch_point(command.end))

    # --- after --------------------------------------------------------------------------------------------------------

    def settle(self, planned: PlannedTransfers, results: Sequence[outcome.Outcome[KVData | None]]) -> None:
        """Commit what was moved, and answer.  What could not be moved is as good as a block that failed in use."""
        planned.record.clear_pending()
        try:
            values = [result.unwrap() for result in results]
        except Exception as error:
            request_id = planned.record.hold.request_id
            logger.warning(
                "KV could not be moved for request %s: %r", request_id, error, extra={"request_id": request_id}
            )
            if isinstance(planned.command, LoadBlocks):
                self._cache.invalidation.invalidate(planned.source.trial)
            self._forget_overwritten(planned)
            self._answer(planned, None)
            return
        planned.record.happen(Event.TRANSFERRED)
        if not isinstance(planned.command, Audit) and self._cache.invalidation.alarms != planned.alarms:
            self._forget_overwritten(planned)  # it may have been found wrong while it was moved
            self._answer(planned, None)
            return
        self._commit(planned)
        self._answer(planned, values)

    def _commit(self, planned: PlannedTransfers) -> None:
        record, start = planned.record, planned.record.length
        if isinstance(planned.command, CopyPrefix):
            self._cache.count_hit("live", max(0, planned.end - max(start, record.slot.staged)))
        tokens = record.hold.prompt[start : planned.end]
        if not tokens:
            return
        if planned.least is None:
            self._table.stage(record.slot, planned.end, planned.source)
            return
        self._table.commit_transferred(record.slot, tokens, planned.source, planned.least)
        record.ledger.note_transferred(max(0, planned.end - max(start, record.hold.kept)))
        self._cache.salvaged.take(record.slot.tokens, start, planned.end)
        if self._observers.transferred:
            self._observers.tell(
                self._observers.transferred, Transferred(*record.key, record.slot.id, start, len(tokens))
            )

    def _forget_overwritten(self, planned: PlannedTransfers) -> None:
        """A load that broke off may have left anything where it wrote, even in a block that was resident in part."""
        record = planned.record
        written = (transfer.start for transfer in planned.transfers if isinstance(transfer, Load))
        start = min(written, default=record.length)
        if self._table.rings is not None and planned.least is not None:  # so were rings
            self._table.note_written(record.slot, planned.end)
            if isinstance(planned.command, CopyPrefix) or start < record.slot.least:
                start = 0  # a copy overwrites what they had of positions before its start, too
        record.ledger.note_overwritten(max(0, record.length - max(start, record.hold.kept)))
        self._table.trim(record.slot, start)

    def _answer(self, planned: PlannedTransfers, values: Sequence[KVData | None] | None) -> None:
        """Answer a move, which has failed if there are no values."""
        match planned.command:
            case CopyPrefix() as copy:
                # Another slot's tokens may change before the copy's turn: that is no failure.
                copy.reply.set(outcome.Value(values is not None or not self._has_prefix(planned.record, copy)))
            case LoadBlocks(reply=reply):
                reply.set(outcome.Value(None if values is None else planned.loaded))
            case Audit() as audit:
                saved = None if values is None else values[0]
                agrees = saved is not None and kv_agrees(saved, self._comparable(audit.block.data, saved))
                self._cache.invalidation.note_audit(agrees=agrees)
                if not agrees:
                    self._quarantine(planned.record, planned.record.slot.stands_on.keys() | frozenset(audit.restored))
                audit.reply.set(outcome.Value(agrees))

    def _comparable(self, cached: KVData, saved: KVData) -> KVData:
        """Return what there is of a cached block to be compared: not the rows that rings have lost since."""
        rings = self._table.rings
        if rings is None or cached.shape == saved.shape:
            return cached
        return cached[rings.full_pieces]

    def _quarantine(self, record: HoldRecord, wrong: Collection[BlockKey]) -> None:
        """Let nothing be used any more that came from these blocks, or may have been computed after them."""
        if self._observers.audit_failed:
            self._observers.tell(self._observers.audit_failed, AuditFailed(*record.key, frozenset(wrong)))
        self._cache.invalidation.invalidate_descendants(wrong)
        self._table.quarantine(wrong)
