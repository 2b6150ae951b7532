"""Warm requests: prompts that are read ahead of time, while nobody else has work.

A warm request lives only as long as it is alone with others of its kind.  Whoever comes with work ends all of them in
the moment in which it is admitted, so that their rows leave the step that runs at its next layer.  One that comes while
somebody has work is granted no slot (`actors.manager.admission`), and ends at once.  What was read stays where it is,
for the request that comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.receipts import CancelReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.request import Request


def end_warm_requests(newcomer: Request, live: Collection[Request]) -> None:
    """End the warm requests that are in somebody's way; to be called before the newcomer is in the queue.

    Args:
        newcomer: that is about to be there.
        live: all that are.
    """
    if not newcomer.is_warm:
        for request in [one for one in live if one.is_warm]:
            request.cancel(CancelReason.OTHER_WORK)
    elif any(one.has_work and not one.is_warm for one in live):
        newcomer.cancel(CancelReason.OTHER_WORK)
