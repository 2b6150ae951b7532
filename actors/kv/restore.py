"""The restore actor: KV that exists elsewhere is brought into the slot instead of being computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.events import ActorPhase, AuditFailed
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.cache import kv_agrees
from runtime.step.transfer import Copy, Load, Save

if TYPE_CHECKING:
    from actors.core.lease import Lease
    from actors.core.slots import Slot, SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.kv.blocks import Block, BlockKey

# Copying costs a round trip through the manager, about as much as computing a few rows of a small model.
MIN_GAIN = 16


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Another slot's committed prefix reaches farthest."""

    slot: Slot
    end: int


@dataclass(frozen=True, slots=True)
class BlockSource:
    """The tiers' blocks reach farthest."""

    keys: tuple[BlockKey, ...]
    first: int
    is_last: bool  # nothing reaches farther


def next_source(lease: Lease, table: SlotTable, cache: PrefixCache) -> LiveSource | BlockSource | None:
    """Where the slot's next tokens can be had without computing them; None if nowhere.

    The source that reaches farthest wins; on equal reach, the other slot, which costs less.  The prompt's last token is
    left to compute, because its logits are wanted.
    """
    have, most = lease.length, len(lease.prompt) - 1
    if not lease.reuse or lease.audited is not None:
        return None
    keys = lease.prompt.keys
    slot, live = table.longest_live_prefix(lease.prompt, besides=lease.slot)
    live = min(live, most)
    first = have // BLOCK_TOKENS
    last = cache.tiers.reach(keys[: most // BLOCK_TOKENS], first)
    if max(live, last * BLOCK_TOKENS) < have + MIN_GAIN:
        return None
    if slot is not None and live >= last * BLOCK_TOKENS:
        return LiveSource(slot, min(live, have + cache.piece_blocks * BLOCK_TOKENS))
    end = min(last, first + cache.piece_blocks)
    return BlockSource(tuple(keys[first:end]), first, is_last=end == last)


async def restore(lease: Lease, table: SlotTable, cache: PrefixCache) -> None:
    """Bring all there is into the lease's slot, a bounded piece at a time."""
    lease.turn_to(ActorPhase.RESTORING)
    while (source := next_source(lease, table, cache)) is not None:
        if isinstance(source, LiveSource):
            brought = await _copy(lease, source, cache)
        else:
            brought = await _load(lease, source, cache)
        if not brought:
            return


async def _copy(lease: Lease, source: LiveSource, cache: PrefixCache) -> bool:
    """False if the device failed; another slot's tokens may change before the copy's turn, which is no failure."""
    start, end = lease.length, source.end

    def still_valid() -> bool:
        # From the first token on: KV depends on all before it.
        return not source.slot.suspect and source.slot.tokens.shared_with(lease.prompt) >= end

    assert lease.slot is not None
    moved = await lease.move(
        [Copy(source.slot.id, lease.slot.id, start, end)], lease.prompt[start:end], still_valid=still_valid
    )
    if moved is not None:
        cache.count_hit("live", end - start)
    return moved is not None or not still_valid()


async def _load(lease: Lease, source: BlockSource, cache: PrefixCache) -> bool:
    """False if the first block could not be had after all."""
    alarms = cache.verdicts.alarms

    def still_valid() -> bool:
        return cache.verdicts.alarms == alarms  # else what was fetched may have been struck meanwhile

    lease.turn_to(ActorPhase.FETCHING)
    blocks: list[Block] = await cache.fetch(source.keys)
    lease.turn_to(ActorPhase.RESTORING)
    if not blocks:
        return False
    lease.restored += [block.key for block in blocks]
    start, end = source.first * BLOCK_TOKENS, (source.first + len(blocks)) * BLOCK_TOKENS
    if source.is_last and cache.verdicts.choose_audit():
        end -= BLOCK_TOKENS
        lease.audited = (end, blocks.pop())
    assert lease.slot is not None
    slot = lease.slot.id
    moved = await lease.move(
        [Load(slot, start + i * BLOCK_TOKENS, block.data) for i, block in enumerate(blocks)],
        lease.prompt[lease.length : end],
        on_trial=[block.key for block in blocks],
        # Its ancestors too, wherever theirs came from: it may have been computed on other copies of them.
        stands_on=lease.prompt.keys[: end // BLOCK_TOKENS],
        still_valid=still_valid,
    )
    return moved is not None


async def audit(lease: Lease, table: SlotTable, cache: PrefixCache) -> bool:
    """Compare the block that was computed again with the one that was cached.

    A block's KV depends, above the first layer, on all KV before it, so a fault anywhere in the prefix shows here.
    False if they differ, or if another lease's audit has found wrong what this slot's KV stands on.
    """
    assert lease.slot is not None
    if lease.audited is not None:
        (start, block), lease.audited = lease.audited, None
        saved = await lease.move([Save(lease.slot.id, start, start + BLOCK_TOKENS)], ())
        agrees = saved is not None and saved[0] is not None and kv_agrees(saved[0], block.data)
        cache.verdicts.note_audit(agrees=agrees)
        if not agrees:
            _quarantine(lease, table, cache)
            return False
    return not lease.slot.suspect


def _quarantine(lease: Lease, table: SlotTable, cache: PrefixCache) -> None:
    """What came from the same blocks as this lease's KV, or may have been computed after them, is used no more.

    An idle slot is invalidated at once, one that reads its prompt when it has read it, one that decodes at its end;
    until then nothing is copied from it.
    """
    assert lease.slot is not None
    wrong = lease.slot.stands_on.union(lease.restored)
    if (observers := lease.manager.observers).audit_failed:
        observers.tell(observers.audit_failed, AuditFailed(*lease.owner, frozenset(wrong)))
    cache.verdicts.condemn(wrong)
    for slot in table.free:
        if not slot.stands_on.isdisjoint(wrong):
            table.invalidate(slot)
    for slot in table.leased:
        if slot is not lease.slot and not slot.stands_on.isdisjoint(wrong):
            slot.suspect = True
