"""Fair shares among owners, by start-time fair queueing, and what a generation is expected to cost.

Each owner has a *virtual finish*: the tokens that were computed for it so far, divided by its weight.  Whoever has the
least is next.  An owner who comes anew, or again, begins where the others are, so that nobody saves up a share while it
wants nothing.  The method is Goyal, Vin and Cheng's (SIGCOMM 1996); what differs is that the cost is not known when a
generation starts: it is charged as estimated, and corrected by what was really used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

K = TypeVar("K")

FIRST_GUESS = 128.0  # tokens of an output, before any has ended
MEMORY = 0.9  # each output makes those before it count this much less


@dataclass(frozen=True, slots=True)
class _Charge:
    """Charge for a generation that runs."""

    owner: str | None
    weight: float
    cost: float


class FairShares(Generic[K]):
    """The virtual time of each owner.

    Attributes:
        now: the virtual time: the start of whoever was started last, never less than before.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._finish: dict[str | None, float] = {}
        self._charges: dict[K, _Charge] = {}

    def __len__(self) -> int:
        """Return how many owners are remembered."""
        return len(self._finish)

    def start_of(self, owner: str | None, since: float) -> float:
        """Return when, in virtual time, an owner's next generation starts.

        Args:
            owner: of the generation.
            since: the virtual time when the owner began to have somebody wait.
        """
        return max(self._finish.get(owner, 0.0), since)

    def charge(self, key: K, owner: str | None, weight: float, cost: float, since: float) -> None:
        """Start a generation that is estimated to cost so many tokens."""
        start = self.start_of(owner, since)
        self.now = max(self.now, start)
        self._finish[owner] = start + cost / weight
        self._charges[key] = _Charge(owner, weight, cost)

    def settle(self, key: K, used: float) -> None:
        """End a generation, which has cost so much; nothing happens to one that was never started."""
        charge = self._charges.pop(key, None)
        if charge is None:
            return
        self._finish[charge.owner] += (used - charge.cost) / charge.weight

    def forget(self, waiting: Collection[str | None]) -> None:
        """Drop owners who are not ahead, and of whom nobody runs or waits: they would begin there anyway."""
        kept = {charge.owner for charge in self._charges.values()}.union(waiting)
        gone = [owner for owner, finish in self._finish.items() if finish <= self.now and owner not in kept]
        for owner in gone:
            del self._finish[owner]


class OutputLengths:
    """Estimate of an output's length, from those that have ended."""

    def __init__(self) -> None:
        self._mean = FIRST_GUESS

    def expected(self, limit: int | None) -> float:
        """Return tokens, of which there are at most `limit`."""
        return self._mean if limit is None else min(self._mean, float(limit))

    def learn(self, tokens: float) -> None:
        """Note how long an output was."""
        self._mean = MEMORY * self._mean + (1 - MEMORY) * tokens
