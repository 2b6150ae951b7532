"""I20: which tokens of cancelled generations are served again, found out from events, token by token."""

from __future__ import annotations

from actors.core.events import Committed, Granted, Invalidated, Preempted, Resumed, Transferred
from actors.core.observer import Observer
from actors.core.receipts import Receipt
from actors.core.slot_views import GenerationKey
from actors.core.slots import SlotTable
from runtime.kv.blocks import BlockKey
from tests.sim.history import Truth

Token = tuple["BlockKey", int]  # an owner's root, and what the KV of a token is, which follows from all before it


class ServedAgain(Observer):
    """Keeps a set of all tokens that are left, each by its content.

    Attributes:
        served: how many of them somebody was given.
        kept: tokens that receipts say are kept.
    """

    def __init__(self, table: SlotTable) -> None:
        self.served = 0
        self.kept = 0
        self._table = table
        self._truth = Truth()
        self._left: set[Token] = set()
        self._slots: dict[GenerationKey, int] = {}
        self._preempted: dict[GenerationKey, int] = {}
        self._computed: dict[GenerationKey, list[tuple[int, Token]]] = {}

    def granted(self, event: Granted) -> None:
        """Count what was in the slot."""
        self._slots[event.key], self._computed[event.key] = event.slot, []
        self._serve(event.slot, 0, event.cached_tokens)

    def preempted(self, event: Preempted) -> None:
        """Note how many tokens it leaves if it is cancelled now."""
        del self._slots[event.key]
        self._preempted[event.key] = event.tokens

    def resumed(self, event: Resumed) -> None:
        """Count what was in the slot."""
        del self._preempted[event.key]
        self._slots[event.key] = event.slot
        self._serve(event.slot, 0, event.cached_tokens)

    def transferred(self, event: Transferred) -> None:
        """Count what was moved into the slot."""
        self._serve(event.slot, event.start, event.start + event.tokens)

    def committed(self, event: Committed) -> None:
        """Note what was computed, which is nobody's any more who was cancelled before."""
        if not event.drafting:
            tokens = self._tokens(event.slot, event.start, event.start + event.rows)
            self._left.difference_update(tokens)
            self._computed[event.key] += enumerate(tokens, event.start)

    def invalidated(self, event: Invalidated) -> None:
        """Nothing of it is valid."""
        self._computed[event.key].clear()

    def receipt(self, event: Receipt) -> None:
        """Note what is left; not what lies behind the slot's end."""
        self.kept += event.kept_tokens
        if (slot := self._slots.get((event.request_id, event.index))) is not None:
            end = len(self._table.slot(slot).tokens)
            own = self._computed[event.request_id, event.index]
            self._left.update(token for place, token in own if place < end)
        elif (kept := self._preempted.pop((event.request_id, event.index), None)) is not None:
            own = self._computed[event.request_id, event.index]
            self._left.update(token for place, token in own if place < kept)

    def _serve(self, slot: int, first: int, end: int) -> None:
        left = self._left.intersection(self._tokens(slot, first, end)) if self._left else ()
        self.served += len(left)
        self._left.difference_update(left)

    def _tokens(self, slot: int, first: int, end: int) -> list[Token]:
        sequence = self._table.slot(slot).tokens
        return [(sequence.root, row) for row in self._truth.rows(sequence, slot)[first:end]]

    def check(self, counted: int) -> None:
        """Raise AssertionError if the engine counts otherwise."""
        assert counted == self.served, f"I20: {self.served} tokens were served again, and {counted} are counted"
        assert counted <= self.kept, f"I20: {counted} tokens were served again, and {self.kept} were kept"
