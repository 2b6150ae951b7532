"""Choice of who leaves its slot to a more important one.

Only one of a *worse* priority ever does, never one of the same.  Who was preempted is the less often preempted again:
of several the one goes that was preempted least, each time counts as some levels of ageing in the queue, and after
`MAX_PREEMPTIONS` it is let alone.  Nor does anybody leave a slot to one who waited already when it was granted: it had
that because its class was passed over for long enough.  So nothing goes back and forth, and everybody ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.life import State
from actors.scheduling.order import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from actors.core.holds import HoldRecord

MAX_PREEMPTIONS = 4  # of one generation
LEVELS = MAX_LEVELS // MAX_PREEMPTIONS  # of ageing, for each


def is_at_rest(record: HoldRecord, draft_start: int) -> bool:
    """Return whether a hold can be interrupted here, and go on from the tokens that its slot has now.

    It waits for rows that nothing on the device but its slot belongs to.  Not amid a round of a drafter, whose KV runs
    ahead, nor with drafts whose distributions the device has; nor while it reads a prompt of which all rows are wanted,
    or no KV may serve, for then it would have to be read again.

    Args:
        record: of the hold.
        draft_start: the first position that its drafter has not read.
    """
    work, ticket = record.submitted, record.hold.ticket
    if work is None or record.state is State.LOST:
        return False
    if record.runs_alone or record.slot.suspect or record.is_warm:
        return False
    match work.phase:
        case State.PREFILL:
            is_brought_back = ticket.reuse or record.hold.prompt is not ticket.prompt
            return not record.length or is_brought_back
        case State.DRAFT:
            return draft_start + len(work.token_ids) == record.length + 1
    return all(draft.distribution is None for draft in work.drafts)


def choose(
    candidates: Iterable[HoldRecord],
    priority: int,
    before: int,
    is_enough: Callable[[Collection[int]], bool],
) -> Sequence[HoldRecord]:
    """Return those who are to be preempted for one who waits, the least important; none if all were not enough.

    Args:
        candidates: who can be.
        priority: of the one who waits.
        before: the number of grants when it began to wait; those that came after are let alone.
        is_enough: whether it could be granted a slot if these, by their numbers, were free.
    """
    worse = [
        one
        for one in candidates
        if one.priority > priority and one.granted <= before and one.ledger.preemptions < MAX_PREEMPTIONS
    ]
    ranked = sorted(worse, key=lambda one: (-one.priority, one.ledger.preemptions, -one.granted))
    chosen: list[HoldRecord] = []
    while not is_enough([one.slot.id for one in chosen]):
        if len(chosen) == len(ranked):
            return ()
        chosen.append(ranked[len(chosen)])
    for one in reversed(chosen[:-1]):  # a larger one may have made a smaller one needless
        rest = [other for other in chosen if other is not one]
        if is_enough([other.slot.id for other in rest]):
            chosen = rest
    return chosen
