"""What actors want moved: prefixes of other slots, cached blocks, and what an audit is to compare."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome

from actors.core.commands import Audit, CopyPrefix, LoadBlocks, Loaded
from actors.core.events import AuditFailed, Moved
from actors.core.life import Event
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.cache import kv_agrees
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Set

    from actors.core.commands import KVCommand
    from actors.core.holds import HoldRecord
    from actors.core.observer import Observers
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey
    from runtime.step.transfer import KVData, Transfer

logger = logging.getLogger("cede.kv")


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A command and the transfers that carry it out, with what was known when they were planned.

    Attributes:
        record: whose slot it is.
        command: the actor's.
        transfers: for the executor.
        end: how many tokens the slot has KV of when it is done.
        trial: blocks that the KV comes from, over which no step has run.
        stands_on: all blocks that it comes from, or may have been computed after.
        loaded: the answer to `LoadBlocks`.
        alarms: times that KV had been found wrong by then.
    """

    record: HoldRecord
    command: KVCommand
    transfers: Sequence[Transfer]
    end: int
    trial: Sequence[BlockKey] = ()
    stands_on: Set[BlockKey] = frozenset()
    loaded: Loaded | None = None
    alarms: int = 0


class Moves:
    """Plans and settles moves; called by the slot manager's task and by nobody else.

    Args:
        table, cache, observers: the manager's.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache, observers: Observers) -> None:
        self._table = table
        self._cache = cache
        self._observers = observers

    # --- before -------------------------------------------------------------------------------------------------------

    def plan(self, record: HoldRecord) -> PlannedMove | None:
        """Return the move that a hold wants, if it can go now; what has come to nothing meanwhile is answered."""
        command = record.pending
        if record.mark.at is not None or self._cache.waiting.any_of(record.slot.id):
            return None
        match command:
            case CopyPrefix():
                return self._plan_copy(record, command)
            case LoadBlocks():
                return self._plan_load(record, command)
            case Audit(start=start):
                save = Save(record.slot.id, start, start + BLOCK_TOKENS)
                return PlannedMove(record, command, [save], record.length)
        return None

    def _plan_copy(self, record: HoldRecord, command: CopyPrefix) -> PlannedMove | None:
        if not self._has_prefix(record, command):
            record.clear_pending()
            command.reply.set(outcome.Value(True))
            return None
        source = self._table.slot(command.source)
        return PlannedMove(
            record,
            command,
            [Copy(source.id, record.slot.id, record.length, command.end)],
            command.end,
            # Now: who is granted the source while it is copied trims it.
            trial=list(source.trial),
            stands_on=frozenset(source.stands_on),
            alarms=self._cache.verdicts.alarms,
        )

    def _plan_load(self, record: HoldRecord, command: LoadBlocks) -> PlannedMove | None:
        blocks = self._cache.take(command.fetched)
        if not blocks:
            record.clear_pending()
            command.reply.set(outcome.Value(None))
            return None
        keys = tuple(block.key for block in blocks)
        start, end = command.first * BLOCK_TOKENS, (command.first + len(blocks)) * BLOCK_TOKENS
        audited: tuple[int, Block] | None = None
        if command.is_last and self._cache.verdicts.choose_audit():
            end -= BLOCK_TOKENS
            audited = end, blocks.pop()
        return PlannedMove(
            record,
            command,
            [Load(record.slot.id, start + i * BLOCK_TOKENS, block.data) for i, block in enumerate(blocks)],
            max(end, record.length),
            trial=[block.key for block in blocks],
            # Its ancestors too, wherever theirs came from: it may have been computed on other copies of them.
            stands_on=frozenset(record.hold.prompt.keys[: end // BLOCK_TOKENS]),
            loaded=Loaded(keys, audited),
            alarms=self._cache.verdicts.alarms,
        )

    def _has_prefix(self, record: HoldRecord, command: CopyPrefix) -> bool:
        """Whether the source still has the prefix, from the first token on: KV depends on all before it."""
        source = self._table.slot(command.source)
        return not source.suspect and source.tokens.shared_with(record.hold.prompt) >= command.end

    # --- after --------------------------------------------------------------------------------------------------------

    def settle(self, move: PlannedMove, results: Sequence[outcome.Outcome[KVData | None]]) -> None:
        """Commit what was moved, and answer.  What could not be moved is as good as a block that failed in use."""
        move.record.clear_pending()
        try:
            values = [result.unwrap() for result in results]
        except Exception as error:
            logger.warning("KV could not be moved for request %s: %r", move.record.hold.request_id, error)
            if isinstance(move.command, LoadBlocks):
                self._cache.verdicts.strike(move.trial)
            self._forget_overwritten(move)
            self._answer(move, None)
            return
        move.record.happen(Event.MOVED)
        if not isinstance(move.command, Audit) and self._cache.verdicts.alarms != move.alarms:
            self._forget_overwritten(move)  # it may have been found wrong while it was moved
            self._answer(move, None)
            return
        self._commit(move)
        self._answer(move, values)

    def _commit(self, move: PlannedMove) -> None:
        record, start = move.record, move.record.length
        tokens = record.hold.prompt[start : move.end]
        if not tokens:
            return
        self._table.commit_moved(record.slot, tokens, move.trial, move.stands_on)
        record.ledger.note_moved(len(tokens))
        if isinstance(move.command, CopyPrefix):
            self._cache.count_hit("live", len(tokens))
        if self._observers.moved:
            self._observers.tell(self._observers.moved, Moved(*record.key, record.slot.id, start, len(tokens)))

    def _forget_overwritten(self, move: PlannedMove) -> None:
        """A load that broke off may have left anything where it wrote, even in a block that was resident in part."""
        record = move.record
        written = (transfer.start for transfer in move.transfers if isinstance(transfer, Load))
        start = min(written, default=record.length)
        record.ledger.note_overwritten(max(0, record.length - start))
        self._table.trim(record.slot, start)

    def _answer(self, move: PlannedMove, values: Sequence[KVData | None] | None) -> None:
        """Answer a move, which has failed if there are no values."""
        match move.command:
            case CopyPrefix() as copy:
                # Another slot's tokens may change before the copy's turn: that is no failure.
                copy.reply.set(outcome.Value(values is not None or not self._has_prefix(move.record, copy)))
            case LoadBlocks(reply=reply):
                reply.set(outcome.Value(None if values is None else move.loaded))
            case Audit() as audit:
                saved = None if values is None else values[0]
                agrees = saved is not None and kv_agrees(saved, audit.block.data)
                self._cache.verdicts.note_audit(agrees=agrees)
                if not agrees:
                    self._quarantine(move.record, move.record.slot.stands_on | frozenset(audit.restored))
                audit.reply.set(outcome.Value(agrees))

    def _quarantine(self, record: HoldRecord, wrong: Collection[BlockKey]) -> None:
        """Let nothing be used any more that came from these blocks, or may have been computed after them."""
        if self._observers.audit_failed:
            self._observers.tell(self._observers.audit_failed, AuditFailed(*record.key, frozenset(wrong)))
        self._cache.verdicts.condemn(wrong)
        self._table.quarantine(wrong)
