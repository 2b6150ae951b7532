"""Loads of blocks for models with recurrent layers: the last piece has the state that a sequence goes on from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from actors.core.commands import Loaded
from actors.core.slot_views import Provenance
from actors.kv.planned_transfers import PlannedTransfers, end_of, places_of
from runtime.kv.blocks import BLOCK_TOKENS, state_key
from runtime.step.transfer import Load, LoadState

if TYPE_CHECKING:
    from actors.core.commands import LoadBlocks
    from actors.core.holds import HoldRecord
    from actors.core.places.states import States
    from actors.kv.invalidation import Invalidation
    from actors.kv.tiers import Tiers
    from runtime.kv.blocks import Block
    from runtime.step.transfer import Transfer

AUDIT_BLOCKS = 16  # that an audit computes again at most, from the state before the last


class StateLoads:
    """Plans them; part of `TransferPlanner`.

    Args:
        states: of the slots.
        tiers, invalidation: the cache's.
    """

    def __init__(self, states: States, tiers: Tiers, invalidation: Invalidation) -> None:
        self._states = states
        self._tiers = tiers
        self._invalidation = invalidation

    def plan(self, record: HoldRecord, command: LoadBlocks, blocks: list[Block]) -> PlannedTransfers | None:
        """Plan a piece; None if it cannot be loaded, as what came before it or its state is not there.

        Args:
            record: whose piece it is.
            command: that asked for it.
            blocks: what could be had of it.
        """
        state = blocks.pop() if blocks and blocks[-1].is_state else None
        start, end = command.first * BLOCK_TOKENS, end_of(command, blocks)
        goes_on = start <= max(record.length, record.slot.staged)  # else what came before was dropped
        if not goes_on or (state is None if command.is_last else not blocks):
            return None
        audited: tuple[int, Block] | None = None
        if state is not None and blocks and (before := self._audited_from(record, end)) is not None:
            audited = end - BLOCK_TOKENS, blocks[-1]
            count, state = before
            blocks, end = blocks[: max(0, count - command.first)], count * BLOCK_TOKENS
        keys = tuple(block.key for block in blocks)
        trial = keys if state is None else (*keys, state.key)
        places = places_of(record.hold.prompt.keys[: end // BLOCK_TOKENS], 0) | places_of(keys, command.first)
        transfers: list[Transfer] = [
            Load(record.slot.id, number * BLOCK_TOKENS, block.data, pages=record.slot.pages)
            for number, block in enumerate(blocks, start=command.first)
        ]
        source = Provenance(trial, places, restored_to=end)
        if state is not None:
            (buffer,) = self._states.lend_buffers(1, trio.current_time())
            transfers.append(LoadState(record.slot.id, buffer, state.data))
            source = replace(source, stands_on={**places, state.key: end - 1}, states={end: buffer})
        return PlannedTransfers(
            record,
            command,
            transfers,
            end,
            source,
            least=0 if command.is_last else None,
            loaded=Loaded(trial, audited),
            alarms=self._invalidation.alarms,
        )

    def _audited_from(self, record: HoldRecord, end: int) -> tuple[int, Block] | None:
        """Return what a sequence goes on from if its last block is to be computed again; None if that is not to be.

        That is the state before the last one, if it is in memory and not far, and the number of blocks before it.
        Whether the last state itself is right, another audit shows, which goes on from it.
        """
        last, keys = end // BLOCK_TOKENS, record.hold.prompt.keys
        for count in range(last - 1, max(record.length // BLOCK_TOKENS, last - 1 - AUDIT_BLOCKS), -1):
            state = self._tiers.ram.get(state_key(keys[count - 1]))
            if state is not None:
                is_chosen = end % BLOCK_TOKENS == 0 and self._invalidation.choose_audit()
                return (count, state) if is_chosen else None
        return None
