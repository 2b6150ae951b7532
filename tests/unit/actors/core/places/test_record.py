"""The record of one place, and what goes with its KV to another."""

from __future__ import annotations

from actors.core.places.record import SlotRecord
from actors.core.slot_views import Provenance
from actors.core.slots import SlotTable
from runtime.kv.token_chain import TokenChain


def test_all_that_is_known_of_kv_goes_with_it() -> None:
    table = SlotTable(1, 64, retained_places=1)
    slot, retained = table.slot(0), table.slot(1)
    table.grant(("a", 0), TokenChain(b"", [1, 2, 3, 4]))
    table.commit_transferred(slot, [1, 2], Provenance((b"k",), {b"k": 0}, 2), least=0)
    table.commit(slot, [3, 4])
    table.commit_draft(slot, 0, 3)
    table.release(slot, held_until=5.0)
    known = [name for name in SlotRecord.__slots__ if name not in ("id", "owner", "reserved", "rings")]
    before = [getattr(slot, name) for name in known]
    of_the_retained = [getattr(retained, name) for name in known]
    table.exchange(slot, retained)
    assert [getattr(retained, name) for name in known] == before
    assert [getattr(slot, name) for name in known] == of_the_retained
    assert (retained.id, retained.stands_on, retained.held_until, retained.draft_length) == (1, {b"k": 0}, 5.0, 3)
    table.quarantine([b"k"])
    assert len(retained.tokens) == 0, "it is found there, too"
    table.check_integrity()
