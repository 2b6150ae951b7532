"""Registry of requests that belong together: who is in which group, and who takes whose place."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from actors.core.receipts import CancelReason
from actors.groups.member import Member
from runtime.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.control import Control
    from actors.core.hold import QueuePlace

REMEMBERED = 4096
"""Ids of requests that have ended, so that another may still be said to start after one of them."""

_Named: TypeAlias = tuple[str | None, str]
"""A name, and the owner whose it is: none means anything to another."""


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group that has live requests.

    Attributes:
        owner: the name of the API key whose it is; None where there are no keys.
        requests: ids of the live requests in it, those in groups below it not among them; the oldest first.
    """

    name: str
    owner: str | None
    requests: tuple[str, ...]


def is_within(name: str | None, group: str) -> bool:
    """Return whether a name is that of a group, or of one somewhere in it; None is the name of no group.

    Names are paths whose parts are divided by slashes.

    >>> is_within("agent/search", "agent"), is_within("agents", "agent")
    (True, False)
    """
    return name is not None and (name == group or name.startswith(f"{group}/"))


class RequestGroups:
    """All live requests of an engine, from their coming on.  Nothing in here crosses from one owner to another."""

    def __init__(self) -> None:
        self._live: dict[Member, None] = {}  # the oldest first
        self._ended: OrderedDict[_Named, None] = OrderedDict()

    @contextmanager
    def joined(self, request_id: str, owner: str | None, control: Control) -> Iterator[Member]:
        """Be among them while the scope lasts; whoever is superseded is cancelled at once.

        Raises:
            RequestError: it is to start after a request that nobody knows, or to win a race of no group.
        """
        if control.first_wins and control.group is None:
            raise RequestError("'cede.first_wins' is for requests of one 'cede.group'.", param="cede.first_wins")
        after = self._awaited(control, owner)
        succeeds = self._superseded(control, owner)
        member = Member(request_id, owner, control, succeeds=succeeds, after=after, has_won=self._has_won)
        self._live[member] = None
        try:
            yield member
        finally:
            del self._live[member]
            if member.was_admitted:
                self._remember((owner, request_id))

    def end_group(self, owner: str | None, name: str) -> list[str]:
        """End all live requests of an owner's group, and of those in it; returns their ids, the oldest first."""
        ended = [one for one in self._live if one.owner == owner and is_within(one.control.group, name)]
        for member in ended:
            member.end(CancelReason.GROUP)
        return [member.id for member in ended]

    def end_superseded(self, owner: str | None, name: str, *, by: str) -> None:
        """End those of an owner that have the name, but for the request `by`, which took their place elsewhere."""
        for member in list(self._live):
            if member.owner == owner and member.control.supersede == name and member.id != by:
                member.end(CancelReason.SUPERSEDED)

    def live(self) -> list[LiveGroup]:
        """Return the groups that have live requests."""
        found: dict[_Named, list[str]] = {}
        for member in self._live:
            if member.control.group is not None:
                found.setdefault((member.owner, member.control.group), []).append(member.id)
        return [LiveGroup(name, owner, tuple(ids)) for (owner, name), ids in found.items()]

    def _superseded(self, control: Control, owner: str | None) -> tuple[QueuePlace, ...]:
        """Cancel the one before, and return its places; with those of others before it that are still leaving."""
        if control.supersede is None:
            return ()
        before = [one for one in self._live if one.owner == owner and one.control.supersede == control.supersede]
        for member in before:
            member.end(CancelReason.SUPERSEDED)
        return tuple(place for member in before for place in member.places())

    def _awaited(self, control: Control, owner: str | None) -> tuple[QueuePlace, ...]:
        if control.after is None:
            return ()
        for member in self._live:
            if member.id == control.after and member.owner == owner and member.was_admitted:
                return member.places()
        if (owner, control.after) in self._ended:
            return ()
        raise RequestError(f"There is no request {control.after!r} to start after.", param="cede.after")

    def _has_won(self, winner: Member) -> None:
        """Cancel those who ran against it."""
        for member in list(self._live):
            runs = member.control.first_wins and member.control.group == winner.control.group
            if runs and member is not winner and member.owner == winner.owner:
                member.end(CancelReason.SIBLING_WON)

    def _remember(self, ended: _Named) -> None:
        self._ended[ended] = None
        self._ended.move_to_end(ended)
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
