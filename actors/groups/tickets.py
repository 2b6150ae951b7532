"""The tickets of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.hold import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.generation import GenerationRequest
    from actors.core.hold import Manager, Rank
    from actors.groups.member import Member
    from runtime.kv.token_chain import TokenChain


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
