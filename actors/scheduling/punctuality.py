"""Check of whether a deadline can still be met: one that cannot is refused, instead of computing for nobody.

A refusal has to be certain.  So it takes what steps were measured to cost, twice as fast as that, and everything for
cached that is somewhere, or that somebody reads now; nothing is said before steps of both kinds were seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from runtime.errors import DeadlineExceeded
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from actors.core.hold import Ticket
    from actors.core.holds import HoldRecord, Holds
    from actors.core.slots import SlotTable
    from actors.scheduling.costs import StepCostModel
    from runtime.kv.blocks import BlockKey

MARGIN = 0.5  # of the time that is expected, a first token takes at least so much


class Punctuality:
    """Compares deadlines with the least time that a first token takes; changes nothing.

    Args:
        table, holds: the manager's.
        reach: how many blocks of a prompt are cached in memory or on disk, from its first or a later one on.
        costs: of the target's steps.
    """

    def __init__(
        self, table: SlotTable, holds: Holds, reach: Callable[[Sequence[BlockKey], int], int], costs: StepCostModel
    ) -> None:
        self._table = table
        self._holds = holds
        self._reach = reach
        self._costs = costs

    def check(self, ticket: Ticket, now: float) -> None:
        """Raise DeadlineExceeded if a ticket cannot be served in time, however soon it is."""
        if (late := self.complaint(ticket, now)) is not None:
            raise late

    def complaint(self, ticket: Ticket, now: float, without: Collection[HoldRecord] = ()) -> DeadlineExceeded | None:
        """Return what is to be said of a ticket that cannot be served in time; None for one that perhaps can.

        Args:
            ticket: of one that waits.
            now: on the clock of its deadline.
            without: those who are to be preempted for it, so that it cannot read along with them.
        """
        if ticket.rank.deadline == math.inf or not self._costs.knows_chunks:
            return None
        left = ticket.rank.deadline - now
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
        in_tiers = self._reach(prompt.keys, 0) * BLOCK_TOKENS
        return min(max(in_slots, read_now, in_tiers), len(prompt) - 1)
