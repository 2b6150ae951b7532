"""The restore actor: KV that exists elsewhere is brought into the slot instead of being computed again.

It runs in the request's own task, and only looks, reads from disk and sends commands: `CopyPrefix`, `LoadBlocks`,
`Audit`, `Restart`.  What they change is in `actors.kv.moves` and the slot manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.events import ActorStage
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from actors.core.hold import Hold
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey

# Tokens.  Moving KV costs a round trip through the manager, about as much as computing a few rows of a small model.
MIN_GAIN = 16


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Another slot's committed prefix reaches farthest; its KV up to position `end` is one piece."""

    slot: SlotView
    end: int


@dataclass(frozen=True, slots=True)
class BlockSource:
    """The tiers' blocks reach farthest; these are one piece.

    Attributes:
        keys: of the blocks.
        first: number of the first of them in the prompt.
        is_last: nothing reaches farther.
    """

    keys: tuple[BlockKey, ...]
    first: int
    is_last: bool


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
        self._given_up = not hold.ticket.reuse
        self._restored: list[BlockKey] = []
        self._audited: tuple[int, Block] | None = None  # position and block: it is computed again, to be compared

    async def run(self) -> None:
        """Bring all there is into the slot, a bounded piece at a time."""
        self._hold.turn_to(ActorStage.RESTORING)
        while (source := self.next_source()) is not None:
            if isinstance(source, LiveSource):
                goes_on = await self._hold.copy_prefix(source.slot.id, source.end)
            else:
                goes_on = await self._load(source)
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
        slot, live = self._table.longest_live_prefix(prompt, besides=self._hold.slot)
        live = min(live, limit)
        first = have // BLOCK_TOKENS
        last = cache.tiers.reach(prompt.keys[: limit // BLOCK_TOKENS], first)
        if max(live, last * BLOCK_TOKENS) < have + MIN_GAIN:
            return None
        if slot is not None and live >= last * BLOCK_TOKENS:
            return LiveSource(slot, min(live, have + cache.piece_blocks * BLOCK_TOKENS))
        end = min(last, first + cache.piece_blocks)
        return BlockSource(tuple(prompt.keys[first:end]), first, is_last=end == last)

    async def _load(self, source: BlockSource) -> bool:
        """Have a piece of the tiers' loaded; False if nothing was."""
        self._hold.turn_to(ActorStage.FETCHING)
        fetched = await self._cache.fetch(source.keys)
        self._hold.turn_to(ActorStage.RESTORING)
        loaded = await self._hold.load_blocks(fetched, source.first, is_last=source.is_last)
        if loaded is None:
            return False
        self._restored += loaded.keys
        self._audited = loaded.audited
        return True
