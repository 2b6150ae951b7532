"""What the slot manager moves between two steps: blocks out of slots, to be kept, and cached KV into them."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome

from actors.core.events import Moved, SavedBlock, TransferBegins, TransferEnded
from actors.core.lease import Lease, Move
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.core.observer import Observers
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.kv.waiting_blocks import SlotBlock
    from runtime.kv.blocks import BlockKey
    from runtime.step.executor import Executor
    from runtime.step.transfer import KVData, Transfer

logger = logging.getLogger("cede.kv")


@dataclass(frozen=True, slots=True)
class _Origin:
    """Of the KV that a move brings, before it is moved.

    Attributes:
        trial: blocks that no step has run over, wherever they are copied to.
        stands_on: all blocks that it came from, or may have been computed after.
        alarms: the cache's, so far.
    """

    trial: list[BlockKey]
    stands_on: set[BlockKey]
    alarms: int


class KVMover:
    """Part of the slot manager: called by its task, between steps, and by nobody else."""

    def __init__(self, executor: Executor, table: SlotTable, cache: PrefixCache, observers: Observers) -> None:
        self._executor = executor
        self._table = table
        self._cache = cache
        self._observers = observers

    def may_write(self, lease: Lease) -> bool:
        """Whether nothing that is to be kept is left in the lease's slot."""
        assert lease.slot is not None
        return not self._cache.waiting.any_of(lease.slot.id)

    async def move(self, leases: Collection[Lease]) -> bool:
        """Move a bounded piece of KV; False if there was none.

        Blocks in leased slots that are to be kept come first, since nothing may be written there before; then what
        actors want moved.  Blocks of idle slots are copied when there are no others, and one at a time while anyone
        waits for tokens.

        Raises:
            DeviceLost: no step can run now.
        """
        self._cache.write_behind.offer()
        saves = self._next_saves(leases)
        moves = [move for lease in leases if (move := self._ready(lease)) is not None]
        transfers: list[Transfer] = [Save(slot, block.start, block.start + BLOCK_TOKENS) for slot, block in saves]
        transfers += [transfer for move in moves for transfer in move.transfers]
        if not transfers and not moves:
            return False
        origins = [self._origin(move) for move in moves]  # now: who is granted a source meanwhile trims it
        if self._observers.transfer_begins:
            saved = tuple(SavedBlock(block.key, slot, block.start) for slot, block in saves)
            self._observers.tell(self._observers.transfer_begins, TransferBegins(tuple(transfers), saved))
        results = deque(await self._executor.transfer(transfers))
        if self._observers.transfer_ended:
            self._observers.tell(self._observers.transfer_ended, TransferEnded())
        for slot, block in saves:
            result = results.popleft()
            if self._cache.waiting.is_taken(slot, block):  # else what it stands on was found wrong meanwhile
                self._keep(slot, block, result)
        for move, origin in zip(moves, origins, strict=True):
            self._settle(move, origin, [results.popleft() for _ in move.transfers])
        return True

    def _next_saves(self, leases: Collection[Lease]) -> list[tuple[int, SlotBlock]]:
        piece = self._cache.piece_blocks
        leased = [lease.slot.id for lease in leases if lease.slot is not None]
        urgent = self._cache.next_saves(leased, piece)
        return urgent or self._cache.next_saves([slot.id for slot in self._table.free], 1 if leases else piece)

    def _ready(self, lease: Lease) -> Move | None:
        """The lease's move, if it can go now; one that is no longer valid is answered instead."""
        move = lease.pending
        if not isinstance(move, Move) or lease.mark.at is not None or not self.may_write(lease):
            return None
        if move.still_valid():
            return move
        lease.pending = None
        move.reply.set(outcome.Value(None))
        return None

    def _keep(self, slot: int, block: SlotBlock, saved: outcome.Outcome[KVData | None]) -> None:
        try:
            data = saved.unwrap()
        except Exception as error:
            logger.warning("a block of KV could not be copied out of its slot, and is not kept: %r", error)
        else:
            assert data is not None
            self._cache.keep(slot, block, data)

    def _origin(self, move: Move) -> _Origin:
        sources = [self._table.slot(transfer.source) for transfer in move.transfers if isinstance(transfer, Copy)]
        return _Origin(
            trial=[*move.on_trial, *(key for source in sources for key in source.trial)],
            stands_on=set(move.stands_on).union(*(source.stands_on for source in sources)),
            alarms=self._cache.verdicts.alarms,
        )

    def _settle(self, move: Move, origin: _Origin, results: Sequence[outcome.Outcome[KVData | None]]) -> None:
        """Commit what was moved.  What could not be is as good as a block that failed in use."""
        lease = move.lease
        assert lease.slot is not None
        lease.pending = None
        try:
            values = [result.unwrap() for result in results]
        except Exception as error:
            logger.warning("KV could not be moved for request %s: %r", lease.request_id, error)
            self._cache.verdicts.strike(move.on_trial)
            self._forget_overwritten(move)
            move.reply.set(outcome.Value(None))
            return
        if move.tokens and self._cache.verdicts.alarms != origin.alarms:  # found wrong while it was moved?
            self._forget_overwritten(move)
            move.reply.set(outcome.Value(None))
            return
        self._table.commit(lease.slot, move.tokens, moved=bool(move.tokens))
        lease.cached += len(move.tokens)
        lease.slot.trial += origin.trial
        lease.slot.stands_on |= origin.stands_on
        if self._observers.moved and move.tokens:
            start = lease.length - len(move.tokens)
            self._observers.tell(self._observers.moved, Moved(*lease.owner, lease.slot.id, start, len(move.tokens)))
        move.reply.set(outcome.Value(values))

    def _forget_overwritten(self, move: Move) -> None:
        """A load that broke off may have left anything where it wrote, even in a block that was resident in part."""
        lease = move.lease
        assert lease.slot is not None
        start = min((transfer.start for transfer in move.transfers if isinstance(transfer, Load)), default=lease.length)
        lease.cached -= max(0, lease.length - start)
        self._table.trim(lease.slot, start)
