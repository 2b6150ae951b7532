"""The simulation with KV outside the slots: tiers, a device whose transfers can fail, and a watch on what it moves.

Everything is `tests.simulation`'s, and virtual time too: what the cache reads in a worker thread is read here in its
own task, and costs virtual seconds.  Blocks handed to the disk tier are on disk when `put_nowait` returns.  So nothing
depends on how fast a thread is.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import outcome
import torch
import trio

from actors.engine import EngineConfig, open_engine
from actors.prefix_cache import CacheConfig, PrefixCache
from runtime.block_files import BlockHeader, BlockLayout, block_name, checksum, encode_header
from runtime.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys, root_key
from runtime.disk_tier import DiskTier, open_disk_tier
from runtime.ram_tier import RamTier
from runtime.simulated import chain
from runtime.step import Output
from runtime.tokenizer import Tokenizer
from runtime.transfer import Copy, Load, Save
from tests.simulation import VOCABULARY, FaultyModel, FaultyServed, Simulation, Watch
from tests.simulation import Faults as StepFaults
from tests.small_tokenizers import byte_level

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from actors.engine import Engine
    from actors.prefix_cache import BlockStore
    from runtime.disk_tier import DiskTierStatistics
    from runtime.simulated import SimulatedBatch
    from runtime.step import Segment
    from runtime.transfer import Transfer
    from tests.simulation import Run, Story

T = TypeVar("T")

SHAPE = (BLOCK_TOKENS, 4)  # the 64 bits of a row as four numbers, exact in float32
DTYPE = torch.float32
BLOCK_BYTES = BLOCK_TOKENS * 4 * 4
FILE_BYTES = 4096 + BLOCK_BYTES
ROOT = root_key(fingerprint="5" * 64, dtype="float32", kv_shape=SHAPE)
_ROOT_STATE = 0x5EED
_GARBAGE = 0xBAD


def fresh(folder: Path) -> Path:
    """A folder in there that no run of the test has had yet."""
    return folder / str(len(list(folder.iterdir())))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes within seconds."""
    for _ in range(20_000):
        if condition():
            return
        await trio.sleep(0.0005)
    raise AssertionError("it never comes")


def text(length: int, seed: int) -> list[int]:
    """Tokens that no other seed has."""
    return random.Random(seed).choices(range(VOCABULARY), k=length)


def pack(rows: Sequence[int]) -> torch.Tensor:
    """Rows of KV as a block holds them, `[tokens, 4]`."""
    words = [[row >> shift & 0xFFFF for shift in (0, 16, 32, 48)] for row in rows]
    return torch.tensor(words, dtype=DTYPE).reshape(-1, 4)


def unpack(data: torch.Tensor) -> list[int]:
    """The inverse of `pack`."""
    return [sum(word << shift for word, shift in zip(row, (0, 16, 32, 48), strict=True)) for row in data.int().tolist()]


class Truth:
    """What the KV of every block must be.  It outlives a server."""

    def __init__(self) -> None:
        self._rows: dict[BlockKey, list[int]] = {}

    def rows(self, tokens: Sequence[int]) -> list[int]:
        """The KV of a sequence."""
        rows: list[int] = []
        for index, key in enumerate(block_keys(ROOT, tokens)):
            if key not in self._rows:
                block = tokens[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
                self._rows[key] = self._chain(rows, block)
            rows += self._rows[key]
        return rows + self._chain(rows, tokens[len(rows) :])

    def block(self, key: BlockKey) -> list[int]:
        """The KV of a block of some sequence that has been asked for."""
        return self._rows[key]

    def _chain(self, before: Sequence[int], tokens: Sequence[int]) -> list[int]:
        rows = []
        state = before[-1] if before else _ROOT_STATE
        for token_id in tokens:
            state = chain(state, token_id)
            rows.append(state)
        return rows


# --- a device whose transfers can fail --------------------------------------------------------------------------------


@dataclass(slots=True)
class Faults(StepFaults):
    """What is to go wrong, with KV too."""

    cursed: bool = False  # KV that is loaded now looks well, but every step over it raises
    cursed_not_finite: bool = False  # the same, but they yield NaN
    fails: Callable[[Transfer], bool] = field(default=lambda transfer: False)  # these transfers raise, half done


class KVModel(FaultyModel):
    """Knows of each row whether it does not bear a step."""

    def __init__(self, faults: Faults, *, slots: int, context: int, num_layers: int) -> None:
        super().__init__(faults, slots=slots, context=context, num_layers=num_layers)
        self._kv_faults = faults
        self._curses = [[""] * context for _ in range(slots)]

        # Set where blocks may lie: the true KV of what is committed in a slot.
        self.true_rows: Callable[[int], list[int]] | None = None

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        batch = super().begin(segments)
        for segment in segments:
            self._curses[segment.slot][segment.start : segment.end] = [""] * len(segment.token_ids)
        if any("raises" in self._curses[segment.slot][: segment.start] for segment in segments):
            raise RuntimeError("the device does not bear this KV")
        return batch

    def finish(self, batch: SimulatedBatch) -> list[Output]:
        return [
            Output(finite=False) if "not finite" in self._curses[segment.slot][: segment.start] else output
            for segment, output in zip(batch.segments, super().finish(batch), strict=True)
        ]

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        fails = self._kv_faults.fails(transfer)
        match transfer:
            case Save(slot, start, end):
                if not fails:
                    return pack([row & (1 << 64) - 1 for row in self.kv[slot][start:end]])
            case Load(slot, start, data):
                end = start + len(data)
                self.kv[slot][start:end] = [_GARBAGE] * len(data) if fails else unpack(data)
                self._curses[slot][start:end] = [self._curse()] * len(data)
            case Copy(source, slot, start, end):
                self.kv[slot][start:end] = [_GARBAGE] * (end - start) if fails else self.kv[source][start:end]
                self._curses[slot][start:end] = self._curses[source][start:end]
        if fails:
            raise RuntimeError("the device ran into a planted fault while KV was moved")
        return None

    def _write(self, segment: Segment) -> None:
        """A row depends on all before it, as attention's do: a wrong one among them makes it wrong too."""
        super()._write(segment)
        if self.true_rows is not None:
            kv = self.kv[segment.slot]
            pairs = zip(kv[: segment.start], self.true_rows(segment.slot), strict=True)
            wrong = sum(row ^ true for row, true in pairs) & (1 << 64) - 1
            kv[segment.start : segment.end] = [row ^ wrong for row in kv[segment.start : segment.end]]

    def _curse(self) -> str:
        if self._kv_faults.cursed:
            return "raises"
        return "not finite" if self._kv_faults.cursed_not_finite else ""


# --- what is moved ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moved:
    """The transfers between two steps, and when they were done."""

    finished_at: float
    transfers: tuple[Transfer, ...]


class KVWatch(Watch):
    """Looks at transfers as well.

    Blocks that wait to be saved are still in their slot, whole, and nothing is written there before they are saved;
    what a copy reads is committed in its source; what is moved into a slot follows what is committed there.

    Args:
        block_seconds: how long the transfer of one block takes.
    """

    def __init__(
        self, model: KVModel, layer_seconds: Callable[[int], float], truth: Truth, block_seconds: float
    ) -> None:
        super().__init__(model, layer_seconds)
        self.moved: list[Moved] = []
        self.is_moving = False
        self.kv_is_exact = True  # False while blocks that lie are meant to be in use
        self._truth = truth
        self._block_seconds = block_seconds

    @property
    def transfers(self) -> list[Transfer]:
        """All of them, in order."""
        return [transfer for moved in self.moved for transfer in moved.transfers]

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        self.check_kv()
        for transfer in transfers:
            self._look_at(transfer)
        seconds = self._block_seconds * sum(_tokens_of(transfer) for transfer in transfers) / BLOCK_TOKENS
        # Who is cancelled may have to wait for this, as for a step.
        self.longest_layer = max(self.longest_layer, seconds / self._model.num_layers)
        self.is_moving = True
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        self.is_moving = False
        done: list[outcome.Outcome[torch.Tensor | None]]
        done = [outcome.capture(self._model.transfer, transfer) for transfer in transfers]
        self.moved.append(Moved(self.clock(), tuple(transfers)))
        return done

    def check_kv(self) -> None:
        for slot in self.manager.table._slots:
            self._truth.rows(slot.before)  # what was displaced
            rows = self._truth.rows(slot.tokens)
            if self.kv_is_exact:
                self._expect(self._model.kv[slot.id][: len(rows)] == rows, f"slot {slot.id}: KV is not its tokens'")
                self._check_unsaved(slot.id)

    def _check_unsaved(self, slot: int) -> None:
        for block in self.manager.cache._unsaved.get(slot, ()):
            rows = self._model.kv[slot][block.start : block.start + BLOCK_TOKENS]
            self._expect(rows == self._truth.block(block.key), f"slot {slot}: an unsaved block was overwritten")

    def _look_at(self, transfer: Transfer) -> None:
        table = self.manager.table
        if isinstance(transfer, Save):
            return
        slot = table.slot(transfer.slot)
        self._may_be_written(slot.id)
        alive = any(lease.slot is slot and lease.mark.at is None for lease in self.manager._leases.values())
        self._expect(alive, f"KV is moved into slot {slot.id} for nobody")
        if isinstance(transfer, Copy):
            committed = len(table.slot(transfer.source).tokens)
            self._expect(transfer.end <= committed, f"slot {transfer.source}: copied is what is not there")
            self._expect(transfer.start == len(slot.tokens), f"slot {slot.id}: a copy does not go on at the end")

    def _before(self, segment: Segment) -> Run:
        self._may_be_written(segment.slot)
        return super()._before(segment)

    def _may_be_written(self, slot: int) -> None:
        self._expect(not self.manager.cache.unsaved(slot), f"slot {slot} is written to before all of it is saved")


def _tokens_of(transfer: Transfer) -> int:
    return len(transfer.data) if isinstance(transfer, Load) else transfer.end - transfer.start


# --- tiers ------------------------------------------------------------------------------------------------------------


class SettledDisk:
    """A disk tier whose writer is always done."""

    def __init__(self, tier: DiskTier) -> None:
        self.tier = tier

    def __contains__(self, key: BlockKey) -> bool:
        return key in self.tier

    def put_nowait(self, block: Block) -> bool:
        taken = self.tier.put_nowait(block)
        assert self.tier.flush(10.0) == 0
        return taken

    def load(self, key: BlockKey) -> Block | None:
        return self.tier.load(key)

    def drop(self, key: BlockKey) -> None:
        self.tier.drop(key)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        self.tier.touch(keys)
        assert self.tier.flush(10.0) == 0

    def statistics(self) -> DiskTierStatistics:
        return self.tier.statistics()


@contextmanager
def open_settled_disk(folder: Path, *, blocks: int = 1000) -> Iterator[SettledDisk]:
    """The disk tier in `folder`, with room for so many blocks; nothing is fsynced, since nothing crashes here."""
    with (
        mock.patch("os.fsync"),
        open_disk_tier(folder, ROOT, shape=SHAPE, dtype=DTYPE, budget=blocks * FILE_BYTES) as tier,
    ):
        yield SettledDisk(tier)
        tier.check_integrity()


def block_file(folder: Path, block: Block) -> Path:
    """Where a block lies."""
    return folder / ROOT.hex() / block_name(block.key, block.parent)


def rewrite(folder: Path, block: Block, rows: Sequence[int]) -> None:
    """Give a block's file other contents, and a checksum that fits them."""
    data = pack(rows).view(torch.uint8).numpy().reshape(-1)
    layout = BlockLayout("F32", SHAPE)
    header = BlockHeader(ROOT, block.key, block.parent, block.token_ids, layout, checksum(data))
    block_file(folder, block).write_bytes(encode_header(header) + data.tobytes())


@contextmanager
def reads_in_virtual_time(seconds: float) -> Iterator[None]:
    """Worker threads' work is done by the caller's task, and takes so long.

    Like a thread's, it is not begun by a caller who is cancelled, and then awaited to its end.
    """

    async def run_sync(function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds / 2)
            result = function(*args)
            await trio.sleep(seconds / 2)  # until the loop hears of it
        return result

    with mock.patch.object(trio.to_thread, "run_sync", run_sync):
        yield


# --- the whole --------------------------------------------------------------------------------------------------------


class KVSimulation(Simulation):
    """An engine with tiers.  Made by `open_kv_simulation`."""

    model: KVModel
    watch: KVWatch
    faults: Faults

    def __init__(self, engine: Engine, model: KVModel, watch: KVWatch, faults: Faults, truth: Truth) -> None:
        super().__init__(engine, model, watch, faults)
        self.truth = truth

    @property
    def cache(self) -> PrefixCache:
        return self.manager.cache

    @property
    def ram(self) -> RamTier:
        return self.cache._ram

    @property
    def disk(self) -> DiskTier:
        assert isinstance(self.cache._disk, SettledDisk)
        return self.cache._disk.tier

    def rows(self, story: Story, index: int = 0) -> int:
        """Prompt rows that were computed for a generation that finished."""
        owner = (story.asked.id, index)
        rows = sum(run.rows for step in self.steps for run in step.runs if run.owner == owner and run.computed)
        return rows - (len(story.tokens(index, all=True)) - 1)

    def whole(self, story: Story, index: int = 0) -> list[int]:
        """The prompt and the output."""
        return [*story.asked.prompts[index], *story.tokens(index, all=True)]

    def reach(self, tokens: Sequence[int]) -> int:
        """How many of a sequence's blocks the tiers have."""
        return self.cache.reach(self.cache.keys(tokens), 0)

    def let_blocks_lie(self) -> None:
        """From now on KV may be loaded that is not its tokens'."""
        self.watch.kv_is_exact = False
        self.model.true_rows = lambda slot: self.truth.rows(self.manager.table.slot(slot).tokens)

    async def settle(self) -> None:
        """Wait until nothing is left to save."""
        slots = range(len(self.manager.table))
        await until(lambda: not self.watch.is_moving and not any(map(self.cache.unsaved, slots)))

    def evict(self, *, slots: bool = True, ram: bool = False, disk: bool = False, blocks: range | None = None) -> None:
        """Forget what is resident, and blocks of the tiers (by their place among the tier's, oldest first)."""
        for slot in self.manager.table.free if slots else []:
            self.cache.forget(slot.id)
            self.manager.table.invalidate(slot)
        if ram:
            for key in _choose(list(self.ram._blocks), blocks):
                self.ram.drop(key)
        if disk:
            for key in _choose(list(self.disk._blocks._index), blocks):
                self.disk.drop(key)

    def check(self) -> None:
        super().check()
        for key, block in self.ram._blocks.items():
            assert unpack(block.data) == self.truth.block(key), "a block in RAM is not its tokens'"
            assert block.data.shape == SHAPE
        if self.cache._disk is not None:
            self.disk.check_integrity()
            assert self.disk.statistics().bytes <= self.disk.statistics().budget

    def check_disk(self) -> None:
        """Every file holds what it says."""
        for key in list(self.disk._blocks._index):
            block = self.disk._blocks.load(key)
            assert block is not None
            assert unpack(block.data) == self.truth.block(key), "a block on disk is not its tokens'"

    def _check_sums(self, receipt: Any) -> None:  # noqa: ANN401  a Receipt
        # A prompt that was read again from a clean state has rows that were computed and are not kept.
        if not any(step.failed for step in self.steps) and self.watch.kv_is_exact and not self._restarted():
            super()._check_sums(receipt)

    def _restarted(self) -> bool:
        return self.cache.statistics().strikes > 0


def _choose(keys: list[BlockKey], places: range | None) -> list[BlockKey]:
    return keys if places is None else [keys[place] for place in places if place < len(keys)]


@asynccontextmanager
async def open_kv_simulation(
    *,
    slots: int = 2,
    context: int = 1024,
    layers: int = 3,
    ram: int = 1000,
    disk: BlockStore | None = None,
    truth: Truth | None = None,
    hold_seconds: float = 60.0,
    audit_share: float = 0.0,
    piece: int = 2,
    step_seconds: Callable[[int], float] = lambda rows: 0.004 + 0.0001 * rows,
    block_seconds: float = 0.003,
    read_seconds: float = 0.002,
    **config: Any,  # noqa: ANN401  EngineConfig's
) -> AsyncIterator[KVSimulation]:
    """An engine over the stand-in model, with tiers; at the end, everything must have been given back.

    Args:
        ram: blocks that the RAM tier has room for.
        disk: from `open_settled_disk`.
        truth: of the servers before, if blocks of theirs are still there.
        piece: blocks moved at a time.
        block_seconds: how long it takes to move a block.
        read_seconds: how long it takes to read one from disk.
        config: for `EngineConfig`; prompts are read 32 rows at a time unless it says otherwise.
    """
    faults, truth = Faults(), truth or Truth()
    model = KVModel(faults, slots=slots, context=context, num_layers=layers)
    watch = KVWatch(model, lambda rows: step_seconds(rows) / layers, truth, block_seconds)
    served = FaultyServed("stand-in", 0, context, VOCABULARY, (), Tokenizer(byte_level()), faults=faults)
    settings = EngineConfig(**{"slots": slots, "chunk_tokens": 32, **config})
    options = CacheConfig(hold_seconds=hold_seconds, audit_share=audit_share, piece_bytes=piece * BLOCK_BYTES)
    cache = PrefixCache(ROOT, BLOCK_BYTES, ram=RamTier(ram * BLOCK_BYTES), disk=disk, config=options, seed=1)
    with reads_in_virtual_time(read_seconds):
        async with open_engine(watch, served, settings, cache) as engine:
            watch.attach(engine._manager)
            simulation = KVSimulation(engine, model, watch, faults, truth)
            yield simulation
        simulation.check()
    simulation.check_idle()
