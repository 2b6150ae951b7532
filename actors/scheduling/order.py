"""Order of those who wait.

Each has a *priority*, an integer of which the lower goes first, as in vLLM; those of one number are a *class*.  Inside
a class owners have fair shares (`shares`), and one owner's are served as they came.  So with one owner and one class,
who came first is first.

Across classes the better one goes first, but none is forgotten: a class that was passed over ages.  Each `ageing`
seconds in which it was not served, though somebody waited there, count as one level of priority, and after
`MAX_LEVELS` of them it goes before all others, once; then it waits anew.  So a class that others press upon is still
served at least once in `MAX_LEVELS * ageing` seconds in which anybody is.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from actors.scheduling.shares import FairShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

K = TypeVar("K")

MAX_LEVELS = 20  # of ageing, after which a class goes before all others


@dataclass(frozen=True, slots=True)
class Claim(Generic[K]):
    """Somebody's wish to be next.

    Attributes:
        key: whose.
        number: the order of arrival; no two have the same.
        since: seconds, when it began to wait.
        priority: the lower, the earlier.
        owner: with whom it shares; None is an owner as well.
        weight: of the owner's share.
        levels: of ageing that it has already, because it had to wait before.
    """

    key: K
    number: int
    since: float
    priority: int = 0
    owner: str | None = None
    weight: float = 1.0
    levels: int = 0


@dataclass(slots=True)
class _Flow(Generic[K]):
    """One owner's claims in one class, as they came; `since` is the virtual time when the first of them came."""

    since: float
    claims: list[Claim[K]] = field(default_factory=list)


@dataclass(slots=True)
class _Class(Generic[K]):
    """Class of those of one priority; `served` is when one of them was last started, in seconds."""

    served: float = -math.inf
    flows: dict[str | None, _Flow[K]] = field(default_factory=dict)


class Order(Generic[K]):
    """Queue of those who wait.

    Args:
        ageing: seconds that count as one level of priority for a class that is passed over.
    """

    def __init__(self, ageing: float) -> None:
        self._ageing = ageing
        self._claims: dict[K, Claim[K]] = {}
        self._classes: dict[int, _Class[K]] = {}
        self._shares = FairShares[K]()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._claims)

    def __contains__(self, key: K) -> bool:
        """Return whether this one waits."""
        return key in self._claims

    def __iter__(self) -> Iterator[K]:
        """Yield those who wait: the better class first, and in a class those who came first."""
        ranked = sorted(self._claims.values(), key=lambda claim: (claim.priority, claim.number))
        return (claim.key for claim in ranked)

    def add(self, claim: Claim[K]) -> None:
        """Let one wait, at the place in its owner's line that its number says."""
        assert claim.key not in self._claims, f"{claim.key} waits already"
        self._claims[claim.key] = claim
        flows = self._classes.setdefault(claim.priority, _Class()).flows
        flow = flows.setdefault(claim.owner, _Flow(self._shares.now))
        insort(flow.claims, claim, key=lambda one: one.number)

    def remove(self, key: K) -> None:
        """Let one wait no more."""
        claim = self._claims.pop(key)
        group = self._classes[claim.priority]
        flow = group.flows[claim.owner]
        flow.claims.remove(claim)
        if not flow.claims:
            del group.flows[claim.owner]
        if not group.flows:
            del self._classes[claim.priority]

    def move(self, key: K, priority: int) -> None:
        """Let one wait in another class, where its number says."""
        claim = self._claims[key]
        self.remove(key)
        self.add(replace(claim, priority=priority))

    def next(self, now: float, unless: Callable[[K], bool] = lambda key: False) -> K | None:
        """Return who is next at a time in seconds, of those that `unless` is not true of; None if there is nobody."""
        candidates = [
            (self._level(group, claim, now), priority, claim.key)
            for priority, group in self._classes.items()
            if (claim := self._candidate(group, unless)) is not None
        ]
        return min(candidates, key=lambda one: one[:2])[2] if candidates else None

    def priority_of(self, key: K) -> int:
        """Return the priority of one that waits, as it is now."""
        return self._claims[key].priority

    def most_important(self, unless: Callable[[K], bool] = lambda key: False) -> K | None:
        """Return who is next of the best class, whatever the others' age; None if there is nobody."""
        for _, group in sorted(self._classes.items()):
            if (claim := self._candidate(group, unless)) is not None:
                return claim.key
        return None

    def start(self, key: K, cost: float, now: float) -> None:
        """Let one wait no more, for it is served: its owner is charged so many tokens.

        One that was charged before, and has come back, is not charged again: `resume` is for it.
        """
        claim = self._claims[key]
        since = self._classes[claim.priority].flows[claim.owner].since
        self._shares.charge(key, claim.owner, claim.weight, cost, since)
        self.resume(key, now)

    def resume(self, key: K, now: float) -> None:
        """Let one wait no more, for it is served again."""
        priority = self._claims[key].priority
        self._classes[priority].served = now
        self.remove(key)

    def settle(self, key: K, used: float) -> None:
        """Correct what was charged for one that has ended by what it has used."""
        self._shares.settle(key, used)
        self._shares.forget({claim.owner for claim in self._claims.values()})

    def _candidate(self, group: _Class[K], unless: Callable[[K], bool]) -> Claim[K] | None:
        """Return who is next of a class: the first of the owner whose turn it is."""
        firsts = [
            (self._shares.start_of(owner, flow.since), claim.number, claim)
            for owner, flow in group.flows.items()
            if (claim := next((one for one in flow.claims if not unless(one.key)), None)) is not None
        ]
        return min(firsts, key=lambda one: one[:2])[2] if firsts else None

    def _level(self, group: _Class[K], claim: Claim[K], now: float) -> float:
        """Return the priority of a class's candidate, aged."""
        levels = claim.levels + (now - max(claim.since, group.served)) / self._ageing
        return -math.inf if levels >= MAX_LEVELS else claim.priority - levels
