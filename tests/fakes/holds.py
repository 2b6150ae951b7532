"""Tickets and holds without a manager that would serve them."""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.commands import Command
from actors.core.hold import Hold, Ticket
from actors.core.holds import HoldRecord
from actors.core.life import Event, Life
from actors.core.observer import Observers
from actors.core.slot_views import SlotView
from runtime.common.ownership import TaskOwner
from runtime.kv.token_chain import TokenChain
from tests.sim.history import ROOT


class IdleManager:
    """A manager that remembers what was posted, and does nothing."""

    def __init__(self) -> None:
        self.observers = Observers()
        self.posted: list[Command] = []

    def now(self) -> float:
        """It is always the same moment."""
        return 1.0

    def post(self, command: Command) -> None:
        """Remember a command."""
        self.posted.append(command)

    def draft_start(self, slot: SlotView) -> int:
        """Nobody drafts."""
        return slot.draft_length

    def neighbours(self, hold: Hold) -> int:
        """Nobody else is there."""
        return 0


def ticket_of(request_id: str, prompt: Sequence[int]) -> Ticket:
    """A ticket of a request's first generation."""
    return Ticket(IdleManager(), request_id, 0, TokenChain(ROOT, prompt), len(prompt))


def record_of(request_id: str, prompt: Sequence[int], slot: SlotView, owner: TaskOwner) -> HoldRecord:
    """A hold that was just granted."""
    life = Life(owner)
    life.take(Event.GRANTED)
    return HoldRecord(ticket_of(request_id, prompt), slot, life, owner)
