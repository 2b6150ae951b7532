"""KV outside the slots: what can be had of it, what is to be kept, what was found wrong.

Blocks are addressed by their content (`runtime.kv.blocks`), so nothing here maps a place to tokens, and nothing can go
stale (seed 5).  Each part has its state in a class of its own; here is what concerns several.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import trio

from actors.core.commands import Fetched
from actors.kv.config import CacheConfig
from actors.kv.invalidation import Invalidation
from actors.kv.salvaged_tokens import SalvagedTokens
from actors.kv.tiers import Tiers
from actors.kv.waiting_blocks import WaitingBlocks
from actors.kv.write_behind import WriteBehind
from runtime.common.ownership import TaskOwner
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, state_key, tail_key
from runtime.kv.disk.tier import DiskTierStatistics  # noqa: TC001  a field's type, which a schema is made of, too
from runtime.kv.ram_tier import RamTier, RamTierStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actors.core.slot_views import Resident
    from actors.kv.tiers import BlockStore
    from actors.kv.waiting_blocks import SlotBlock
    from runtime.kv.rings import Rings
    from runtime.step.transfer import KVData


@dataclass(frozen=True, slots=True)
class SetAside:
    """Blocks that are kept for a preempted sequence.

    Attributes:
        pinned: all of them.
        tail: of these, the one of its last tokens, if they are no complete block.
    """

    pinned: tuple[BlockKey, ...] = ()
    tail: BlockKey | None = None


NOTHING_SET_ASIDE = SetAside()


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """KV outside the slots.

    Attributes:
        hits: tokens that were not computed, by where their KV came from.
        strikes: blocks that were dropped because KV was found wrong.
        audits: restores whose last block was computed again and compared.
        audit_failures: of these, those that differed.
        unsaved_blocks: blocks in slots that are to be kept.
        disk: None where there is no such tier.
        served_again: tokens that cancelled requests left and later ones were given, each counted once.
        late_reads: reads of the disk that were given up.
        disk_answers: whether the disk is asked; for a while after such a read, it is not.
    """

    hits: dict[str, int]
    strikes: int
    audits: int
    audit_failures: int
    unsaved_blocks: int
    ram: RamTierStatistics
    disk: DiskTierStatistics | None
    served_again: int = 0
    late_reads: int = 0
    disk_answers: bool = True


class PrefixCache:
    """KV that is kept outside the slots, made of parts of which each has its own state.

    The methods concern several parts; what concerns one is asked of that part.

    Attributes:
        owner: the one task that may change anything here: the slot manager's.
        root: the key that stands for the model; see `runtime.kv.blocks.root_key`.
        config: how KV is kept.
        rings: of the model; None where all layers keep all positions.
        piece_blocks: moved into a slot at a time at most, for each request; what rings need comes with the last piece.
        saved_blocks: moved out of slots at a time at most.
        tiers: which blocks exist, in memory and on disk.
        waiting: blocks that are to be kept and are still in their slot.
        invalidation: what was found wrong.
        salvaged: what cancelled generations have left, for those who come again.
        write_behind: what the disk has not taken yet.
        wake: called when the disk takes blocks again that it has refused, so that the owner offers them.

    Args:
        block_bytes: of one block's KV.
        ring_bytes: of those, what is of layers with rings.
        state_bytes: of the state of recurrent layers; 0 where there are none.
        ram: bytes of host memory for blocks; 0 and no disk make a cache that keeps nothing.
        disk: the disk tier, with the same owner.
        seed: of the choice of audits.
    """

    def __init__(
        self,
        root: BlockKey,
        block_bytes: int,
        ring_bytes: int = 0,
        state_bytes: int = 0,
        *,
        ram: int,
        rings: Rings | None = None,
        disk: BlockStore | None = None,
        config: CacheConfig | None = None,
        seed: int | None = None,
        owner: TaskOwner | None = None,
    ) -> None:
        self.owner = owner or TaskOwner()
        self.root = root
        self.config = config or CacheConfig()
        self.rings = rings
        self._block_bytes, self._state_bytes = block_bytes, state_bytes
        self.piece_blocks = max(1, self.config.piece_bytes // max(1, block_bytes - ring_bytes))
        self.saved_blocks = max(1, self.config.piece_bytes // max(1, block_bytes))
        self.tiers = Tiers(RamTier(ram, self.owner), disk, self.owner, rings, has_states=state_bytes > 0)
        self.waiting = WaitingBlocks(self.owner)
        self.invalidation = Invalidation(
            self.tiers,
            self.waiting,
            root=root,
            audit_share=self.config.audit_share,
            seed=seed,
            owner=self.owner,
        )
        self.salvaged = SalvagedTokens(self.owner)
        self.write_behind = WriteBehind(self.tiers, self.owner)
        self.wake: Callable[[], object] = self.write_behind.offer
        self._hits: Counter[str] = Counter(resident=0, live=0, ram=0, disk=0)

    # --- what can be had --------------------------------------------------------------------------------------------

    @property
    def hits(self) -> Mapping[str, int]:
        """Tokens that were not computed, by where they came from; not to be changed."""
        return self._hits

    def count_hit(self, source: str, tokens: int) -> None:
        """Count tokens that came from a slot: the one that was granted (resident) or another (live)."""
        self.owner.check()
        self._hits[source] += tokens

    async def fetch(self, keys: Sequence[BlockKey], whole: Collection[BlockKey] = ()) -> Fetched:
        """Get the blocks of a chain up to the first that cannot be had, or not in time.

        It changes nothing, so anybody may call it; `take` is for the owner.

        Args:
            keys: of the chain.
            whole: those of them that are wanted whole, if they can be had so.
        """
        alarms, ram, reader = self.invalidation.alarms, self.tiers.ram, self.tiers.reader
        in_part = {key for key in whole if (block := ram.get(key)) is not None and not block.whole}
        better = self.tiers.whole(in_part) if in_part else in_part
        cold = [key for key in keys if key not in ram or key in better]
        read = await reader.read(cold) if cold and reader is not None else {}
        found = takewhile(lambda block: block is not None, (read.get(key) or ram.get(key) for key in keys))
        return Fetched(tuple(block for block in found if block is not None), frozenset(read), alarms)

    def take(self, fetched: Fetched) -> list[Block]:
        """Note the use of blocks, and return them; what was read from disk is in memory from now on, too.

        None of them if KV was found wrong since they were fetched: some may be of what was invalidated.
        """
        self.owner.check()
        if fetched.alarms != self.invalidation.alarms:
            return []
        for block in fetched.blocks:
            if not block.is_state:
                self._hits["disk" if block.key in fetched.from_disk else "ram"] += BLOCK_TOKENS
            self.tiers.ram.insert(block, trio.current_time())
        self.tiers.note_read(fetched.blocks, fetched.from_disk)
        self.tiers.touch([block.key for block in fetched.blocks])
        return list(fetched.blocks)

    # --- what is to be kept -----------------------------------------------------------------------------------------

    def leave(self, slot: int, resident: Resident, held_until: float) -> None:
        """Have a released slot's complete blocks kept when there is time, and let go last until `held_until`."""
        self.owner.check()
        states = self.tiers.missing_states(resident, 0)
        self.waiting.put(slot, resident, self.tiers.missing(resident, 0), held_until, lengths=states)
        keys = resident.tokens.keys
        self.tiers.ram.keep_until([*keys, *map(state_key, keys)] if self.tiers.has_states else keys, held_until)

    def displace(self, slot: int, resident: Resident, usable: int) -> None:
        """Have kept, before it is written to, what a grant displaces: all but the `usable` tokens that are shared.

        So is what an earlier grant displaced, if that hold ended before it wrote anything.
        """
        self.owner.check()
        first, states = usable // BLOCK_TOKENS, self.tiers.missing_states(resident, usable)
        self.waiting.add(slot, resident, self.tiers.missing(resident, first), first=first, lengths=states)

    def can_set_aside(self, tokens: int) -> bool:
        """Return whether the tiers take all KV of a preempted sequence of so many tokens, beside that of others.

        On disk as it is on any disk: what that refuses, or lets go, is computed again.
        """
        if not self.tiers.keep_anything:
            return False
        blocks = -(-tokens // BLOCK_TOKENS) + self.tiers.ram.pinned
        wanted = blocks * self._block_bytes + self._state_bytes
        return self.tiers.disk is not None or wanted <= self.tiers.ram.budget

    def set_aside(self, slot: int, resident: Resident, preemption: int) -> SetAside:
        """Have all kept that a slot holds of a preempted sequence, its last tokens and its state too; returns that.

        It is pinned.  `preemption` is the number of the preemption.

        The last tokens are not kept where the layers with rings have lost some of them: a few rows are computed again.
        """
        self.owner.check()
        if not self.tiers.keep_anything:
            return NOTHING_SET_ASIDE
        tokens, missing = resident.tokens, self.tiers.missing(resident, 0)
        keys, complete, tail = list(tokens.keys), len(tokens.keys), None
        rest = tokens[complete * BLOCK_TOKENS :]
        if rest and resident.has_windows(complete):
            tail = tail_key(tokens.parent(complete), rest, preemption)
            keys.append(tail)
            missing.append(complete)
        states, end = self.tiers.missing_states(resident, 0), len(tokens)
        if end in resident.states and (tail is not None or not rest):
            states = [end, *(length for length in states if length != end)]
            keys.append(state_key(keys[-1]))
        self.waiting.put(slot, resident, missing, tail=tail, lengths=states)
        self.tiers.ram.pin(keys)
        return SetAside(tuple(keys), tail)

    def let_go(self, kept: SetAside) -> None:
        """Need no longer what was set aside; last tokens that are no complete block are of no use to others."""
        self.owner.check()
        self.tiers.ram.unpin(kept.pinned)
        if kept.tail is not None:
            self.tiers.ram.drop(state_key(kept.tail))
            self.tiers.ram.drop(kept.tail)

    def next_saves(
        self, slots: Sequence[int], limit: int, has_state: Callable[[int, SlotBlock], bool] = lambda slot, block: True
    ) -> list[tuple[int, SlotBlock]]:
        """Take up to `limit` blocks to keep, from these slots in this order; `has_state` says if a state is there."""
        self.owner.check()

        def is_unneeded(slot: int, block: SlotBlock) -> bool:
            """Return whether a block that waits need not be kept, or cannot.

            Another slot may have held the same block, and that one may have been kept since; and who was preempted, and
            had these last tokens, may have ended.
            """
            if self.tiers.can_be_had(block.key, whole=block.whole) or self._is_nobodys_tail(block):
                return True
            return block.buffer is not None and not has_state(slot, block)

        return self.waiting.take(slots, limit, unless=is_unneeded)

    def _is_nobodys_tail(self, block: SlotBlock) -> bool:
        return block.end % BLOCK_TOKENS != 0 and not self.tiers.ram.is_pinned(block.key)

    def keep(self, slot: int, block: SlotBlock, data: KVData) -> None:
        """Put a block that was copied out of its slot into the tiers, unless it was for somebody who has gone."""
        self.owner.check()
        if self._is_nobodys_tail(block):
            return
        kept = Block(block.key, block.parent, block.token_ids, data, block.whole, block.private)
        if self.tiers.ram.insert(kept, trio.current_time()):
            self.tiers.ram.keep_until([kept.key], self.waiting.held_until(slot))
        if block.end % BLOCK_TOKENS == 0:
            self.write_behind.add(kept)

    # --- looking in -------------------------------------------------------------------------------------------------

    def statistics(self) -> CacheStatistics:
        """Return a frozen snapshot."""
        disk, reader = self.tiers.disk, self.tiers.reader
        return CacheStatistics(
            hits=dict(self._hits),
            strikes=self.invalidation.invalidated,
            audits=self.invalidation.audits,
            audit_failures=self.invalidation.failed_audits,
            unsaved_blocks=len(self.waiting),
            ram=self.tiers.ram.statistics(),
            disk=None if disk is None else disk.statistics(),
            served_again=self.salvaged.served,
            late_reads=0 if reader is None else reader.late_reads,
            disk_answers=reader is None or reader.answers(),
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if the tiers contradict themselves."""
        self.tiers.ram.check_integrity()


def empty_cache() -> PrefixCache:
    """Return a cache that keeps nothing: only what is in the slots is reused."""
    return PrefixCache(b"", 0, ram=0)
