"""The restore actor: KV that exists elsewhere is brought into the slot instead of being computed again.

It runs in the request's own task, and only looks, reads from disk and sends commands: `CopyPrefix`, `LoadBlocks`,
`Audit`, `Restart`.  What they change is in `actors.kv.transfer_planner` and the slot manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.events import ActorStage
from runtime.kv.blocks import BLOCK_TOKENS, state_key

if TYPE_CHECKING:
    from actors.core.hold import Hold
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.rings import Rings

# Tokens.  Moving KV costs a round trip through the manager, about as much as computing a few rows of a small model.
MIN_GAIN = 16


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Another slot's committed prefix reaches farthest: up to position `end`."""

    slot: SlotView
    end: int


@dataclass(frozen=True, slots=True)
class BlockSource:
    """The tiers' blocks reach farthest; these are one piece.

    Attributes:
        keys: of the blocks.
        first: number of the first of them in the prompt.
        is_last: nothing reaches farther.
        whole: those of them of which rings are filled.
    """

    keys: tuple[BlockKey, ...]
    first: int
    is_last: bool
    whole: tuple[BlockKey, ...] = ()


class Restoration:
    """Restores one generation's prompt, and remembers for it what came from the tiers.

    Args:
        hold: on the slot that the prompt is read into.
        table, cache: where KV is; to look at.
    """

    def __init__(self, hold: Hold, table: SlotTable, cache: PrefixCache) -> None:
        self._hold = hold
        self._table = table
        self._cache = cache
        self._given_up = not (hold.ticket.reuse or hold.kept)  # what it had itself is always its own
        self._restored: list[BlockKey] = []
        self._audited: tuple[int, Block] | None = None  # position and block: it is computed again, to be compared

    async def run(self) -> None:
        """Bring all there is into the slot, a bounded piece at a time.

        Where a state cannot be had, there may be another before it.
        """
        self._hold.turn_to(ActorStage.RESTORING)
        failed: LiveSource | BlockSource | None = None
        while (source := self.next_source()) is not None and source != failed:
            if isinstance(source, LiveSource):
                goes_on = await self._hold.copy_prefix(source.slot.id, source.end)
            else:
                goes_on = await self._load(source)
                if self._cache.tiers.has_states and not goes_on:
                    goes_on, failed = True, source
            if not goes_on:
                return

    async def audit(self) -> bool:
        """Compare the block that was computed again with the one that was cached.

        A block's KV depends, above the first layer, on all KV before it, so a fault anywhere in the prefix shows here.

        Returns:
            False if they differ, or if another hold's audit has found wrong what this slot's KV stands on.
        """
        if self._audited is not None:
            (start, block), self._audited = self._audited, None
            if not await self._hold.audit(start, block, self._restored):
                return False
        return not self._hold.slot.suspect

    async def give_up(self) -> None:
        """Have the slot emptied, what was brought never used again, and bring nothing more."""
        self._given_up, self._audited = True, None
        await self._hold.restart(self._restored)

    def next_source(self) -> LiveSource | BlockSource | None:
        """Return where the slot's next tokens can be had without computing them; None if nowhere.

        The source that reaches farthest wins; on equal reach, the other slot, which costs less.  The prompt's last
        token is left to compute, because its logits are wanted.
        """
        if self._given_up or self._audited is not None:
            return None
        prompt, cache = self._hold.prompt, self._cache
        have, limit = self._hold.length, len(prompt) - 1
        slot, live = self._table.longest_live_prefix(prompt, limit=limit, besides=self._hold.slot)
        first = have // BLOCK_TOKENS
        if cache.tiers.has_states:
            return self._source_with_states(have, slot, live)
        last = cache.tiers.reach(prompt.keys[: limit // BLOCK_TOKENS], first)
        if (tail := self._tail(have, max(live, last * BLOCK_TOKENS))) is not None:
            return tail
        if max(live, last * BLOCK_TOKENS) < have + (1 if self._hold.kept else MIN_GAIN):
            return None
        if slot is not None and live >= last * BLOCK_TOKENS:
            return LiveSource(slot, live)
        if cache.rings is not None:
            staged = max(have, self._hold.slot.staged)
            return self._piece_with_rings(cache.rings, first, staged // BLOCK_TOKENS, last)
        end = min(last, first + cache.piece_blocks)
        return BlockSource(tuple(prompt.keys[first:end]), first, is_last=end == last)

    def _source_with_states(self, have: int, slot: SlotView | None, live: int) -> LiveSource | BlockSource | None:
        """Return the same where a sequence goes on from a state alone: what comes before the last piece is staged.

        The last tokens of a sequence that was preempted are a block like the others.
        """
        hold, cache, tail = self._hold, self._cache, self._hold.tail
        keys, first = hold.prompt.keys[: (len(hold.prompt) - 1) // BLOCK_TOKENS], have // BLOCK_TOKENS
        last = cache.tiers.reach(keys, first)
        end = last * BLOCK_TOKENS
        if tail is not None and max(have, end) < tail.end:
            ending = [*keys[: tail.first], tail.key]
            if cache.tiers.reach(ending, first) == len(ending):
                keys, last, end = ending, len(ending), tail.end
        if max(live, end) < have + (1 if hold.kept else MIN_GAIN):
            return None
        if slot is not None and live >= end:
            return LiveSource(slot, live)
        start = min(max(have, hold.slot.staged) // BLOCK_TOKENS, last)
        end = min(last, start + cache.piece_blocks)
        state = (state_key(keys[last - 1]),) if end == last else ()
        return BlockSource((*keys[start:end], *state), start, is_last=end == last)

    def _tail(self, have: int, reach: int) -> BlockSource | None:
        """Return the last tokens of a sequence that was preempted, once all before them is there; None if not so."""
        tail = self._hold.tail
        if tail is None or not tail.first * BLOCK_TOKENS <= have < tail.end or reach >= tail.end:
            return None
        if tail.key not in self._cache.tiers.ram:
            return None
        return BlockSource((tail.key,), tail.first, is_last=True, whole=(tail.key,))

    def _piece_with_rings(self, rings: Rings, first: int, staged: int, last: int) -> BlockSource:
        """Return the next piece of blocks `first` to `last`, of which those before `staged` are there but for rings.

        The last piece has all that rings need, however much that is: were they filled in pieces, they would lose what
        the slot could go on from before.  If it can be had, it has one block more, so that the last may be audited.
        """
        keys, piece = self._hold.prompt.keys, self._cache.piece_blocks
        filled = max(first, rings.first_needed(last * BLOCK_TOKENS) // BLOCK_TOKENS)
        if filled > first and self._cache.tiers.can_be_had(keys[filled - 1], whole=True):
            filled -= 1
        if rings.has_full_layers and filled - staged > piece:
            return BlockSource(tuple(keys[staged : staged + piece]), staged, is_last=False)
        start = min(staged, filled) if rings.has_full_layers else filled
        return BlockSource(tuple(keys[start:last]), start, is_last=True, whole=tuple(keys[filled:last]))

    async def _load(self, source: BlockSource) -> bool:
        """Have a piece of the tiers' loaded; False if nothing was."""
        self._hold.turn_to(ActorStage.FETCHING)
        fetched = await self._cache.fetch(source.keys, source.whole)
        self._hold.turn_to(ActorStage.RESTORING)
        loaded = await self._hold.load_blocks(fetched, source.first, is_last=source.is_last)
        if loaded is None:
            return False
        self._restored += loaded.keys
        self._audited = loaded.audited
        return True
