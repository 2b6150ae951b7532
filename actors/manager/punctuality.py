"""Check of whether a deadline can still be met: one that cannot is refused, instead of computing for nobody.

A refusal has to be certain.  So it takes what steps were measured to cost, twice as fast as that, and everything for
cached that is somewhere, or that somebody reads now; nothing is said before steps of both kinds were seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from runtime.errors import DeadlineExceeded
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.core.costs import StepCostModel
    from actors.core.hold import Ticket
    from actors.core.holds import HoldRecord, Holds
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache

MARGIN = 0.5  # of the time that is expected, a first token takes at least so much


class Punctuality:
    """Compares deadlines with the least time that a first token takes; changes nothing.

    Args:
        table, cache, holds: the manager's.
        costs: of the target's steps.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache, holds: Holds, costs: StepCostModel) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._costs = costs

    def check(self, ticket: Ticket) -> None:
        """Raise DeadlineExceeded if a ticket cannot be served in time, however soon it is."""
        if (late := self.complaint(ticket)) is not None:
            raise late

    def complaint(self, ticket: Ticket, without: Collection[HoldRecord] = ()) -> DeadlineExceeded | None:
        """Return what is to be said of a ticket that cannot be served in time; None for one that perhaps can.

        Args:
            ticket: of one that waits.
            without: those who are to be preempted for it, so that it cannot read along with them.
        """
        if ticket.rank.deadline == math.inf or not self._costs.knows_chunks:
            return None
        left = ticket.rank.deadline - trio.current_time()
        least = MARGIN * self._seconds(ticket, without)
        if least <= left:
            return None
        return DeadlineExceeded(
            f"the request's deadline, in {max(left, 0.0):.3g} s, cannot be met: "
            f"its first token takes {least:.3g} s at least"
        )

    def _seconds(self, ticket: Ticket, without: Collection[HoldRecord]) -> float:
        """Return what a first token is expected to take, if nothing but it is computed from now on."""
        rows = len(ticket.prompt) - (self._cached(ticket, without) if ticket.reuse else 0)
        return (self._costs.seconds(1) or 0.0) + rows * self._costs.chunk_row_seconds(0.0)

    def _cached(self, ticket: Ticket, without: Collection[HoldRecord]) -> int:
        """Return how many leading tokens may have KV somewhere when they are wanted."""
        prompt = ticket.prompt
        in_slots = max((place.tokens.shared_with(prompt) for place in self._table.places), default=0)
        readers = (record for record in self._holds if record not in without)
        read_now = max((record.hold.prompt.shared_with(prompt) for record in readers), default=0)
        in_tiers = self._cache.tiers.reach(prompt.keys, 0) * BLOCK_TOKENS
        return min(max(in_slots, read_now, in_tiers), len(prompt) - 1)
