"""KV outside the slots: which blocks exist in RAM and on disk, and which of a slot's blocks have yet to be kept.

Blocks are addressed by their content (`runtime.kv.blocks`), so nothing here maps a place to tokens, and nothing can go
stale (seed 5).  What fails in use is dropped from both tiers at once (seed 4); of what an audit finds wrong nothing is
left that may have been computed on it.  Owned by the slot manager's task.
"""

from __future__ import annotations

import logging
import random
from collections import Counter, deque
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

from actors.kv.config import CacheConfig
from actors.kv.disk_reader import DiskReader
from actors.kv.waiting_blocks import WaitingBlocks
from runtime.checkpoint.shards import fingerprint
from runtime.errors import CheckpointError
from runtime.host_memory import available_memory
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys, root_key
from runtime.kv.disk.blocks import DiskBlocks
from runtime.kv.disk.tier import DiskTier, open_disk_tier
from runtime.kv.lineage import severed
from runtime.kv.ram_tier import RamTier, RamTierStatistics
from runtime.units import format_size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from pathlib import Path

    from actors.core.slots import Resident
    from actors.kv.config import TierOptions
    from actors.kv.waiting_blocks import SlotBlock
    from runtime.kv.cache import KVCache
    from runtime.kv.disk.tier import DiskTierStatistics
    from runtime.step.transfer import KVData

# On their way to disk, and perhaps no longer in the memory tier: so much is held beyond its budget.
QUEUE_BLOCKS, QUEUE_BYTES = 64, 256 * 2**20

logger = logging.getLogger("cede.kv")


class BlockStore(Protocol):
    """What is needed of the disk tier, `runtime.kv.disk.tier.DiskTier`."""

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]: ...
    def parents(self) -> dict[BlockKey, BlockKey]: ...
    def put_nowait(self, block: Block) -> bool: ...
    def take_refused(self) -> list[BlockKey]: ...
    def load(self, key: BlockKey) -> Block | None: ...
    def drop(self, keys: Collection[BlockKey]) -> None: ...
    def touch(self, keys: Sequence[BlockKey]) -> None: ...
    def statistics(self) -> DiskTierStatistics: ...


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """The cache as a frozen snapshot.

    Attributes:
        hits: tokens by where they came from.
        late_reads: from disk, that were given up.
        disk_answers: False while the disk is not asked because of one.
    """

    hits: dict[str, int]
    strikes: int
    audits: int
    audit_failures: int
    unsaved_blocks: int
    ram: RamTierStatistics
    disk: DiskTierStatistics | None
    late_reads: int = 0
    disk_answers: bool = True


class PrefixCache:
    """See the module's head.

    Args:
        root: the key that stands for the model; see `runtime.kv.blocks.root_key`.
        block_bytes: of one block's KV.
        ram, disk: the tiers; a RAM tier of budget 0 and no disk tier make a cache that keeps nothing.
        config: see there.
        seed: of the choice of audits.
    """

    def __init__(
        self,
        root: BlockKey,
        block_bytes: int,
        *,
        ram: RamTier,
        disk: BlockStore | None = None,
        config: CacheConfig | None = None,
        seed: int | None = None,
    ) -> None:
        self.config = config or CacheConfig()
        self.piece_blocks = max(1, self.config.piece_bytes // max(1, block_bytes))
        self.hits: Counter[str] = Counter(resident=0, live=0, ram=0, disk=0)
        self.root = root
        self.waiting = WaitingBlocks()
        self._ram = ram
        self._disk = disk
        self._reader = None if disk is None else DiskReader(disk.load)
        self._random = random.Random(seed)
        self._held_until: dict[int, float] = {}  # by slot: what is kept of it is held
        self._unwritten: deque[BlockKey] = deque()  # kept in memory, and not yet taken by the disk tier
        self.strikes = self._audits = self._audit_failures = 0
        self.alarms = 0  # times that KV was found wrong: what was taken before the last one may be of it

    @property
    def keeps(self) -> bool:
        """Whether there is any tier to keep blocks in."""
        return self._ram.budget > 0 or self._disk is not None

    # --- what is there ------------------------------------------------------------------------------------------------

    def keys(self, token_ids: Sequence[int]) -> list[BlockKey]:
        """The keys of a sequence's complete blocks; none where nothing is kept."""
        return block_keys(self.root, token_ids) if self.keeps else []

    def reach(self, keys: Sequence[BlockKey], first: int) -> int:
        """The index after the last of the consecutive blocks from `first` that can be had from some tier."""
        on_disk: set[BlockKey] | None = None
        for last in range(first, len(keys)):
            if keys[last] not in self._ram:
                on_disk = self._on_disk(keys[last:]) if on_disk is None else on_disk
                if keys[last] not in on_disk:
                    return last
        return max(first, len(keys))

    def _can_be_had(self, key: BlockKey) -> bool:
        return key in self._ram or key in self._on_disk([key])

    def _on_disk(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Those that can be had from there now; a disk that does not answer may hold them all the same."""
        if self._disk is None or self._reader is None or not self._reader.answers():
            return set()
        return self._disk.held(keys)

    def __contains__(self, key: BlockKey) -> bool:
        return key in self._ram or (self._disk is not None and bool(self._disk.held([key])))

    async def fetch(self, keys: Sequence[BlockKey]) -> list[Block]:
        """The blocks of a chain, up to the first that cannot be had, or not in time."""
        alarms = self.alarms
        cold = [key for key in keys if key not in self._ram]
        read = await self._reader.read(cold) if cold and self._reader is not None else {}
        if self.alarms != alarms:  # some of it may have been struck while it was being read: it may not come back
            return []
        blocks: list[Block] = []
        for key in keys:
            block = read.get(key) or self._ram.get(key)
            if block is None:
                break
            self.hits["disk" if key in read else "ram"] += BLOCK_TOKENS
            self._ram.insert(block, trio.current_time())
            blocks.append(block)
        self._touch([block.key for block in blocks])
        return blocks

    # --- what is to be kept -------------------------------------------------------------------------------------------

    def leave(self, slot: int, resident: Resident, held_until: float) -> None:
        """A slot was released: its complete blocks are to be kept when there is time, and not let go before then."""
        self.waiting.put(slot, resident, self._missing(resident, 0))
        self._held_until[slot] = held_until
        self._ram.hold(resident.tokens.keys, held_until)

    def displace(self, slot: int, resident: Resident, usable: int) -> None:
        """A slot was granted to a prompt that shares `usable` tokens: the rest is to be kept before it is written to.

        So is what an earlier grant displaced, if that lease ended before it wrote anything.
        """
        first = usable // BLOCK_TOKENS
        self.waiting.add(slot, resident, self._missing(resident, first), first=first)

    def forget(self, slot: int) -> None:
        """A slot was invalidated: nothing of it may be kept."""
        self.waiting.forget(slot)

    def unsaved(self, slot: int) -> bool:
        """Whether a slot holds blocks that are to be kept."""
        return self.waiting.any_of(slot)

    def next_saves(self, slots: Sequence[int], most: int) -> list[tuple[int, SlotBlock]]:
        """Take up to `most` blocks to keep, from these slots in this order."""
        return self.waiting.take(slots, most, unless=self._can_be_had)  # another's, the same, may have been kept since

    def keep(self, slot: int, block: SlotBlock, data: KVData) -> None:
        """Put a block that was copied out of its slot into the tiers."""
        kept = Block(block.key, block.parent, block.token_ids, data)
        if self._ram.insert(kept, trio.current_time()):
            self._ram.hold([kept.key], self._held_until.get(slot, 0.0))
        self._unwritten.append(kept.key)
        self.write_behind(kept)
        if len(self._unwritten) > 2 * len(self._ram) + 64:  # mostly names of blocks that have left the memory
            self._unwritten = deque(dict.fromkeys(key for key in self._unwritten if key in self._ram))

    def write_behind(self, block: Block | None = None) -> bool:
        """Offer the disk what it has not taken yet, as long as it takes it; False if something is left.

        It refuses while its queue is full or the disk is, even what it had taken.  What leaves the memory meanwhile is
        given up; `block` is offered although the memory may have no room for it.
        """
        if self._disk is None:
            self._unwritten.clear()
        else:
            self._unwritten.extendleft(reversed(self._disk.take_refused()))
        while self._unwritten:
            key = self._unwritten[0]
            kept = block if block is not None and block.key == key else self._ram.get(key)
            if kept is not None and self._disk is not None and not self._disk.put_nowait(kept):
                break
            self._unwritten.popleft()
        return not self._unwritten

    # --- what is wrong ------------------------------------------------------------------------------------------------

    def strike(self, keys: Collection[BlockKey]) -> None:
        """These blocks were in use when a step failed: one strike, and they are out.

        What was computed on them stays: a step over it gave finite numbers.
        """
        self.alarms += bool(keys)
        self.waiting.forget_restored(frozenset(keys))
        struck = self._drop(set(keys))
        if struck:
            logger.warning("%d cached blocks failed in use and are dropped", struck)

    def condemn(self, keys: Collection[BlockKey]) -> None:
        """KV that came from these blocks was found wrong: they go, and whatever may have been computed on them.

        That is what stands on them by its own record, and in the tiers, which have none, what descends from them by
        name: it may have been computed on another copy, and then is lost for nothing.
        """
        wrong = frozenset(keys)
        self.alarms += bool(wrong)
        self.waiting.forget_what_stands_on(wrong)
        parents = self._ram.parents() | ({} if self._disk is None else self._disk.parents())
        dropped = self._drop(severed(parents, self.root, wrong))
        logger.warning("%d cached blocks were found wrong, or may have been computed on such, and are dropped", dropped)

    def _drop(self, keys: set[BlockKey]) -> int:
        """How many of these there were."""
        on_disk = set() if self._disk is None else self._disk.held(keys)
        dropped = {key for key in keys if key in self._ram} | on_disk
        for key in dropped:
            self._ram.drop(key)
        if self._disk is not None:
            self._disk.drop(on_disk)
        self.strikes += len(dropped)
        return len(dropped)

    def wants_audit(self) -> bool:
        """Whether this restore is one of those whose last block is to be computed again."""
        return self._random.random() < self.config.audit_share

    def audited(self, agrees: bool) -> None:
        """Count an audit's result, and say it loudly if it is bad."""
        self._audits += 1
        if not agrees:
            self._audit_failures += 1
            logger.error("audit: a cached block differs from what the model computes; it and its prefix are dropped")

    def statistics(self) -> CacheStatistics:
        """A frozen snapshot."""
        return CacheStatistics(
            hits=dict(self.hits),
            strikes=self.strikes,
            audits=self._audits,
            audit_failures=self._audit_failures,
            unsaved_blocks=len(self.waiting),
            ram=self._ram.statistics(),
            disk=None if self._disk is None else self._disk.statistics(),
            late_reads=0 if self._reader is None else self._reader.late_reads,
            disk_answers=self._reader is None or self._reader.answers(),
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if the tiers contradict themselves."""
        self._ram.check_integrity()

    def _missing(self, resident: Resident, first: int) -> list[int]:
        """The numbers of the blocks from the `first` on that are to be kept.

        Not those on trial: some tier gave them, and if it has one no more, that was struck, or is let go.
        """
        if not self.keeps:
            return []
        keys = resident.tokens.keys
        known = self._on_disk(keys[first:]) | resident.trial
        return [i for i in range(first, len(keys)) if keys[i] not in known and keys[i] not in self._ram]

    def _touch(self, chain: Sequence[BlockKey]) -> None:
        self._ram.touch(chain)
        if self._disk is not None:
            self._disk.touch(chain)


def empty_cache() -> PrefixCache:
    """A cache that keeps nothing: only what is in the slots is reused."""
    return PrefixCache(b"", 0, ram=RamTier(0))


@asynccontextmanager
async def open_prefix_cache(
    options: TierOptions,
    config: CacheConfig,
    model_folder: Path,
    identity: str,
    kv: KVCache,
    *,
    quantization: str | None = None,
    open_blocks: Callable[..., DiskBlocks] = DiskBlocks,
) -> AsyncIterator[PrefixCache]:
    """A cache for the KV of the model in `model_folder`; its end writes to disk what it can within the flush time.

    Args:
        options, config: see there.
        model_folder, kv, quantization: of the model.
        identity: the fingerprint of that folder from before the weights were read.
        open_blocks: as for `open_disk_tier`.

    Raises:
        CheckpointError: the folder has changed since, so that nobody knows whose KV this model's would be.
        KVFolderError: the disk tier's folder cannot be used, or another server uses it.
    """
    if await trio.to_thread.run_sync(fingerprint, model_folder) != identity:
        raise CheckpointError(f"{model_folder}: has changed while the model was loaded from it")
    shape = (*kv.row_shape[:3], BLOCK_TOKENS, kv.row_shape[3])
    root = root_key(fingerprint=identity, dtype=str(kv.dtype), kv_shape=shape, quantization=quantization)
    ram_bytes = available_memory() // 5 if options.ram is None else options.ram
    ram = RamTier(ram_bytes)
    block_bytes = BLOCK_TOKENS * kv.bytes_per_token
    token = trio.lowlevel.current_trio_token()

    def has_room() -> None:  # on the writer's thread, while nobody else may come to offer what was refused
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(cache.write_behind)

    with ExitStack() as stack:
        disk = None
        if options.folder is not None:
            tier = open_disk_tier(
                options.folder,
                root,
                shape=shape,
                dtype=kv.dtype,
                budget=options.disk,
                queue_blocks=max(1, min(QUEUE_BLOCKS, QUEUE_BYTES // block_bytes)),
                has_room=has_room,
                open_blocks=open_blocks,
            )
            disk = stack.enter_context(tier)
        cache = PrefixCache(root, block_bytes, ram=ram, disk=disk, config=config)
        on_disk = "" if disk is None else f", {format_size(options.disk)} on disk in {options.folder}"
        logger.info("KV blocks beyond the slots: at most %s in memory%s", format_size(ram_bytes), on_disk)
        try:
            yield cache
        finally:
            if disk is not None:
                with trio.CancelScope(shield=True):
                    await _write_the_rest(cache, disk, options.flush_seconds)


async def _write_the_rest(cache: PrefixCache, disk: DiskTier, seconds: float) -> None:
    """Write what the disk tier has not taken or not written yet, for so long."""
    deadline = trio.current_time() + seconds
    queued, taken = 1, False
    while (queued or not taken) and (left := deadline - trio.current_time()) > 0:
        taken = cache.write_behind()
        queued = await trio.to_thread.run_sync(disk.flush, left)
        if disk.statistics().suspended:
            break
    if queued or not taken:
        logger.warning("not all KV was written to disk in time")
