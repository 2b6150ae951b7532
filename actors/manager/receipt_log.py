"""The log of receipts."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING

from actors.core.receipts import CancelReason, Receipt
from runtime.common.ownership import TaskOwner
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.core.account import Account
    from actors.core.hold import Ticket

logger = logging.getLogger("cede.engine")


class ReceiptLog:
    """The newest receipts, and counts over all of them; the slot manager's task alone writes them.

    Args:
        wall: turns a time of the executor's clock into seconds since the epoch, as they are now.
        capacity: how many are remembered.
        owner: who may write.
    """

    def __init__(self, wall: Callable[[float], float], capacity: int = 1024, *, owner: TaskOwner | None = None) -> None:
        self._wall = wall
        self._owner = owner or TaskOwner()
        self._receipts: deque[Receipt] = deque(maxlen=capacity)
        self._counts: dict[CancelReason, int] = dict.fromkeys(CancelReason, 0)

    @property
    def counts(self) -> Mapping[CancelReason, int]:
        """Receipts so far, by reason."""
        return self._counts

    def write(self, ticket: Ticket, reason: CancelReason, account: Account) -> Receipt:
        """Write the receipt of a generation that was cancelled."""
        assert ticket.mark.at is not None
        last_kernel_at, slot_freed_at = account.last_kernel_at, account.slot_freed_at
        receipt = Receipt(
            request_id=ticket.request_id,
            index=ticket.index,
            reason=reason,
            phase=account.phase,
            detected_at=self._wall(ticket.mark.at),
            last_kernel_at=None if last_kernel_at is None else self._wall(last_kernel_at),
            slot_freed_at=None if slot_freed_at is None else self._wall(slot_freed_at),
            prompt_tokens=len(ticket.prompt),
            cached_tokens=account.cached,
            computed_tokens=account.computed,
            kept_tokens=account.committed,
            wasted_tokens=account.computed - account.committed,
            layers_after_cancel=account.layers_after_cancel,
            drafted_tokens=account.drafted,
            accepted_tokens=account.accepted,
            owner=ticket.owner,
            group=ticket.control.group,
            supersede=ticket.control.supersede,
            after=ticket.control.after,
            warm=ticket.control.warm,
            parks=account.preemptions,
            parked_seconds=account.preempted_seconds,
        )
        self.add(receipt)
        logger.info(
            "request %s/%d cancelled: %s in %s, %s kept, %d wasted",
            receipt.request_id,
            receipt.index,
            receipt.reason,
            receipt.phase,
            counted(receipt.kept_tokens, "token"),
            receipt.wasted_tokens,
            extra=asdict(receipt),
        )
        return receipt

    def add(self, receipt: Receipt) -> None:
        """Remember and count a receipt."""
        self._owner.check()
        self._receipts.append(receipt)
        self._counts[receipt.reason] += 1

    def newest(self, limit: int | None = None) -> list[Receipt]:
        """At most `limit` receipts, newest first; None for all that are remembered."""
        newest = list(self._receipts)[::-1]
        return newest if limit is None else newest[: max(limit, 0)]

    def check_integrity(self) -> None:
        """Raise AssertionError if the sums of a receipt are wrong."""
        for receipt in self._receipts:
            assert receipt.computed_tokens == receipt.kept_tokens + receipt.wasted_tokens, receipt
            assert receipt.wasted_tokens >= 0, receipt
