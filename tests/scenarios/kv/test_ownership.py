"""What is kept outside the slots is changed by one task: whoever else tries is stopped, each change and each class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import trio

from actors.core.commands import Fetched
from actors.core.slot_views import Resident
from actors.kv.invalidation import Invalidation
from actors.kv.prefix_cache import PrefixCache, SetAside
from actors.kv.tiers import Tiers
from actors.kv.waiting_blocks import SlotBlock, WaitingBlocks
from actors.kv.write_behind import WriteBehind
from runtime.common.ownership import NotTheOwner, TaskOwner
from runtime.kv.disk.tier import DiskTier, open_disk_tier
from runtime.kv.ram_tier import RamTier
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_blocks import DTYPE, PLENTY, ROOT, SHAPE, make_block
from tests.fakes.kv_simulation import fresh, open_kv_simulation, open_settled_disk, text, until
from tests.fakes.simulation import ask, simulated

BLOCK = make_block(1)
KEYS = [BLOCK.key]
SLOT_BLOCK = SlotBlock(BLOCK.key, BLOCK.parent, 0, BLOCK.token_ids)
RESIDENT = Resident(TokenChain(ROOT, BLOCK.token_ids))

# Each public method that changes something, and a call of it.
CHANGES: dict[type, dict[str, Callable[[Any], object]]] = {
    PrefixCache: {
        "count_hit": lambda cache: cache.count_hit("live", 1),
        "take": lambda cache: cache.take(Fetched((BLOCK,), frozenset(), 0)),
        "leave": lambda cache: cache.leave(0, RESIDENT, 0.0),
        "displace": lambda cache: cache.displace(0, RESIDENT, 0),
        "next_saves": lambda cache: cache.next_saves([0], 1),
        "keep": lambda cache: cache.keep(0, SLOT_BLOCK, BLOCK.data),
        "set_aside": lambda cache: cache.set_aside(0, RESIDENT, 0),
        "let_go": lambda cache: cache.let_go(SetAside(tuple(KEYS))),
    },
    Tiers: {
        "touch": lambda tiers: tiers.touch(KEYS),
        "hand_in": lambda tiers: tiers.hand_in(BLOCK),
        "drop": lambda tiers: tiers.drop(KEYS),
    },
    WaitingBlocks: {
        "put": lambda waiting: waiting.put(0, RESIDENT, [0]),
        "add": lambda waiting: waiting.add(0, RESIDENT, [0], first=0),
        "take": lambda waiting: waiting.take([0], 1, unless=lambda *_: False),
        "forget": lambda waiting: waiting.forget(0),
        "forget_restored": lambda waiting: waiting.forget_restored(set(KEYS)),
        "exchange": lambda waiting: waiting.exchange(0, 1),
        "forget_what_stands_on": lambda waiting: waiting.forget_what_stands_on(set(KEYS)),
    },
    WriteBehind: {
        "add": lambda write_behind: write_behind.add(BLOCK),
        "offer": lambda write_behind: write_behind.offer(),
    },
    Invalidation: {
        "add_root": lambda invalidation: invalidation.add_root(ROOT),
        "invalidate": lambda invalidation: invalidation.invalidate(KEYS),
        "invalidate_descendants": lambda invalidation: invalidation.invalidate_descendants(KEYS),
        "choose_audit": lambda invalidation: invalidation.choose_audit(),
        "note_audit": lambda invalidation: invalidation.note_audit(agrees=True),
    },
    RamTier: {
        "insert": lambda ram: ram.insert(BLOCK),
        "touch": lambda ram: ram.touch(KEYS),
        "keep_until": lambda ram: ram.keep_until(KEYS, 1.0),
        "drop": lambda ram: ram.drop(BLOCK.key),
        "pin": lambda ram: ram.pin(KEYS),
        "unpin": lambda ram: ram.unpin(KEYS),
    },
    DiskTier: {
        "put_nowait": lambda disk: disk.put_nowait(BLOCK),
        "drop": lambda disk: disk.drop(KEYS),
        "touch": lambda disk: disk.touch(KEYS),
        "take_refused": lambda disk: disk.take_refused(),
    },
}
# The others: they look, or wait for the disk; `close` belongs to who opened the tier.
LOOKS: dict[type, set[str]] = {
    PrefixCache: {"can_set_aside", "fetch", "hits", "statistics", "check_integrity"},
    Tiers: {
        *(
            "keep_anything",
            "reach",
            "last_state",
            "missing",
            "missing_states",
            "available",
            "whole",
            "can_be_had",
            "parents",
        ),
        *("tell", "note_read", "settle_losses"),
    },
    WaitingBlocks: {"of", "any_of", "any_displaced", "end", "held_until", "taken_from"},
    WriteBehind: set(),
    Invalidation: set(),
    RamTier: {"get", "pinned", "is_pinned", "parents", "statistics", "tell", "check_integrity"},
    DiskTier: {
        *("queue_blocks", "held", "whole", "parents", "load", "flush", "close", "statistics", "check_integrity"),
        *("watch_losses", "take_lost"),
    },
}
EACH_CHANGE = [(kind, name) for kind, changes in CHANGES.items() for name in changes]


@dataclass(frozen=True)
class Kept:
    """A cache with both tiers, which have one owner."""

    owner: TaskOwner
    cache: PrefixCache
    disk: DiskTier

    def of(self, kind: type) -> object:
        """Return the part of the cache that is of this kind."""
        parts = (self.cache, self.cache.tiers, self.cache.waiting, self.cache.write_behind, self.cache.invalidation)
        return next(part for part in (*parts, self.cache.tiers.ram, self.disk) if type(part) is kind)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    owner = TaskOwner()
    with open_disk_tier(tmp_path, ROOT, shape=SHAPE, dtype=DTYPE, budget=PLENTY, owner=owner) as disk:
        yield Kept(owner, PrefixCache(ROOT, BLOCK.nbytes, ram=10 * BLOCK.nbytes, disk=disk, owner=owner), disk)


@contextmanager
def stopped() -> Iterator[None]:
    with pytest.raises(NotTheOwner):
        yield


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_each_public_method_is_known_to_change_something_or_nothing(kind: type) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public == CHANGES[kind].keys() | LOOKS[kind], "say in this test whether it changes anything"


@pytest.mark.parametrize(("kind", "name"), EACH_CHANGE, ids=lambda value: getattr(value, "__name__", value))
async def test_a_change_by_another_task_than_the_owner_raises(kept: Kept, kind: type, name: str) -> None:
    change, part = CHANGES[kind][name], kept.of(kind)

    async def other() -> None:
        with stopped():
            change(part)

    with kept.owner.claim():
        change(part)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
        with stopped():
            await trio.to_thread.run_sync(change, part)
    change(part)  # by anybody, once nobody owns it


async def test_looking_is_free(kept: Kept) -> None:
    tiers = kept.cache.tiers

    async def other() -> None:
        assert tiers.reach(KEYS, 0) == 1
        assert tiers.available(KEYS) == set(KEYS)
        assert kept.disk.load(BLOCK.key) is not None
        assert kept.cache.statistics().ram.blocks == 1
        assert kept.disk.flush(10.0) == 0
        kept.cache.check_integrity()

    with kept.owner.claim():
        kept.cache.keep(0, SLOT_BLOCK, BLOCK.data)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)


# --- in a running engine ----------------------------------------------------------------------------------------------

PROMPT = text(200, 1)


@simulated(seeds=2)
async def test_what_a_running_engine_keeps_is_changed_by_nobody_else(tmp_path: Path) -> None:
    with open_settled_disk(fresh(tmp_path)) as disk:
        async with open_kv_simulation(disk=disk) as sim:
            await sim.client(ask("first", PROMPT))
            await sim.settle()
            keys, ram = sim.keys(PROMPT), sim.ram.statistics()
            with stopped():
                sim.cache.invalidation.invalidate(keys)
            with stopped():
                sim.cache.tiers.drop(keys)
            with stopped():
                sim.ram.touch(keys)
            with stopped():
                sim.cache.waiting.forget(0)
            assert sim.ram.statistics() == ram
            assert sim.reach(PROMPT) == len(keys)
            assert (await sim.client(ask("again", PROMPT))).finished().cached_tokens == len(PROMPT) - 1


@simulated(seeds=2)
async def test_an_idle_engine_offers_what_the_disk_refused_when_it_has_room_again(tmp_path: Path) -> None:
    """The disk tier says so on its own thread, from where nothing may be changed: the manager's task is told."""
    with open_settled_disk(fresh(tmp_path)) as disk:
        async with open_kv_simulation(disk=disk) as sim:
            with mock.patch.object(disk, "put_nowait", return_value=False):
                await sim.client(ask("first", PROMPT))
                await sim.settle()
            await trio.sleep(10)
            assert not disk.held(sim.keys(PROMPT))
            sim.cache.wake()
            await until(lambda: disk.held(sim.keys(PROMPT)) == set(sim.keys(PROMPT)))
