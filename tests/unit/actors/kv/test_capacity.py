"""Room in the arena: who lacks it is given it, and what others do not use gives way."""

from __future__ import annotations

import pytest

from actors.core.commands import Submit
from actors.core.life import State
from actors.core.slots import SlotTable
from actors.kv.capacity import CapacityManager
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from runtime.kv.token_chain import TokenChain
from tests.fakes.holds import record_of
from tests.fakes.kv_simulation import BLOCK_BYTES, ROOT, text


@pytest.mark.parametrize(("used", "moves"), [(0, 0), (5, 1)])
def test_a_sequence_without_kv_gives_way_at_once_and_another_in_pieces(used: int, moves: int) -> None:
    """Nothing is copied for the first, so nothing but this call would ever look again."""
    table = SlotTable(2, 512, positions=512, root=ROOT)
    prompt = text(100, 1)
    slots = [table.grant((name, 0), TokenChain(ROOT, prompt), reserved=128) for name in ("first", "second")]
    assert slots[0] is not None
    assert slots[1] is not None
    assert table.extents.give(slots[0], 10, 64)
    assert table.extents.give(slots[1], 100, 128)
    table.commit(slots[0], prompt[:10])
    table.commit(slots[1], prompt[:used])
    first = record_of("first", prompt, slots[0], table.owner)
    first.ask(Submit(first.hold.ticket, State.PREFILL, prompt[10:], None))
    capacity = CapacityManager(table, PrefixCache(ROOT, BLOCK_BYTES, ram=0, config=CacheConfig()))
    capacity.make([first])
    assert len(capacity.pieces()) == moves
    assert slots[0].capacity == (64 if moves else 128)
    table.extents.check_integrity()
