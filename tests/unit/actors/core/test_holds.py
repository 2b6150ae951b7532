"""Records of those who hold a slot: a command names its generation, and finds that one or says that it has left."""

from __future__ import annotations

import pytest

from actors.core.holds import Holds
from actors.core.life import Event, Life
from actors.core.slots import SlotTable
from runtime.common.ownership import TaskOwner
from tests.fakes.holds import ticket_of
from tests.sim.history import ROOT


def test_a_generation_that_has_left_is_not_taken_for_one_of_the_same_name() -> None:
    owner = TaskOwner()
    holds, slots = Holds(owner), SlotTable(1, 100, root=ROOT, owner=owner)
    first, second = ticket_of("a", [1]), ticket_of("a", [1])
    for ticket in first, second:
        slot, life = slots.grant(ticket.key, ticket.prompt), Life(owner)
        assert slot is not None
        life.take(Event.GRANTED)
        record = holds.add(ticket, slot, life)
        assert holds.of(ticket) is record
        if ticket is second:
            with pytest.raises(AssertionError, match="another has its name"):
                holds.of(first)
        holds.remove(record)
        slots.release(slot)
        with pytest.raises(KeyError):
            holds.of(ticket)
