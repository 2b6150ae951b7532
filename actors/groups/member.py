"""One request as related requests see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from actors.core.hold import Ticket
from actors.core.receipts import CancelReason
from runtime.errors import EndedByAnotherRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.control import Control
    from actors.core.generation import GenerationRequest
    from actors.core.hold import Manager, QueuePlace, Rank
    from runtime.kv.token_chain import TokenChain

_WHY = {
    CancelReason.GROUP: "its group was ended",
    CancelReason.SIBLING_WON: "another request of its group finished first",
    CancelReason.SUPERSEDED: "a newer request took its place",
}


class Member:
    """From a request's coming, before it is admitted, to its end.  Made by `RequestGroups.joined`.

    Attributes:
        id, owner, control: the request's.
        ended: why a related request has ended it; None while none has.

    Args:
        succeeds: the places that it takes over.
        after: the places that it waits for.
        has_won: is told that this one has finished well.
    """

    def __init__(
        self,
        request_id: str,
        owner: str | None,
        control: Control,
        *,
        succeeds: Sequence[QueuePlace],
        after: Sequence[QueuePlace],
        has_won: Callable[[Member], None],
    ) -> None:
        self.id = request_id
        self.owner = owner
        self.control = control
        self.ended: CancelReason | None = None
        self._succeeds = succeeds
        self._after = after
        self._has_won = has_won
        self._places: Sequence[QueuePlace] = ()
        self._cancel: Callable[[CancelReason], None] | None = None

    @property
    def was_admitted(self) -> bool:
        """Return whether it has, or had, places in the queue."""
        return bool(self._places)

    def succeeds(self) -> tuple[QueuePlace, ...]:
        """Return the places that it takes over, as far as somebody is in them."""
        return _taken(self._succeeds)

    def after(self) -> tuple[QueuePlace, ...]:
        """Return the places that it waits for, as far as somebody is in them."""
        return _taken(self._after)

    def places(self) -> tuple[QueuePlace, ...]:
        """Return its places, as far as it still is in them."""
        return _taken(self._places)

    def check(self) -> None:
        """Raise EndedByAnotherRequest if it was ended on its way."""
        if self.ended is not None:
            raise EndedByAnotherRequest(f"The request was not begun: {_WHY[self.ended]}.", code=self.ended.value)

    def admit(self, places: Sequence[QueuePlace], cancel: Callable[[CancelReason], None]) -> None:
        """Say what is to be ended from now on; in the moment in which it was checked, and made."""
        self._places, self._cancel = places, cancel

    def end(self, reason: CancelReason) -> None:
        """End the request, or let it not begin."""
        if self.ended is None:
            self.ended = reason
            if self._cancel is not None:
                self._cancel(reason)

    async def finish(self) -> None:
        """Finish well; in a race, only if nobody was first: else this is a cancel point, and it is cancelled."""
        if self.control.first_wins:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._has_won(self)


def _taken(places: Sequence[QueuePlace]) -> tuple[QueuePlace, ...]:
    return tuple(place for place in places if not place.is_left)


def make_tickets(
    manager: Manager,
    asked: GenerationRequest,
    prompts: Sequence[TokenChain],
    rank: Rank,
    member: Member,
    reserved: Callable[[int], int],
) -> list[Ticket]:
    """Return a ticket for each generation of a request.

    Args:
        manager: to whom they are to be given.
        asked: the request.
        prompts: its own, with the names of their blocks.
        rank: how important it is.
        member: what related requests know of it.
        reserved: how many tokens a sequence may come to have, from its prompt's.

    Raises:
        EndedByAnotherRequest: one of them has ended it on its way.
    """
    member.check()
    session = None if asked.session is None else (asked.owner, asked.session)  # no owner names another's
    return [
        Ticket(
            manager,
            asked.id,
            index,
            prompt,
            reserved(len(prompt)),
            asked.reuses_kv,
            asked.owner,
            asked.queue_share,
            session,
            rank,
            asked.control,
            member.succeeds(),
            member.after(),
        )
        for index, prompt in enumerate(prompts)
    ]
