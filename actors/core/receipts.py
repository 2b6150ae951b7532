"""Receipts: what each cancel cost, from the moment it was noticed to the moment its slot was free."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.core.lease import Lease


class CancelReason(enum.StrEnum):
    """Who ended a generation before it was done."""

    DISCONNECT = "client_disconnect"
    DEADLINE = "deadline"
    QUEUE_TIMEOUT = "queue_timeout"
    STALLED_READER = "stalled_reader"
    OPERATOR = "operator"
    SHUTDOWN = "shutdown"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The record of one cancel.  Times are seconds since the epoch, comparable with one another to the microsecond.

    `computed_tokens == kept_tokens + wasted_tokens` always: rows that the target's steps ran for this generation, those
    committed to its slot (a retry finds them), and those dropped with the step in flight or as drafts not accepted.
    `last_kernel_at` and `slot_freed_at` are None for a generation that was still queued.  `layers_after_cancel` counts
    the layers of the step in flight that ended after `detected_at` with this generation's rows still in the batch.
    """

    request_id: str
    index: int
    reason: CancelReason
    phase: str
    detected_at: float
    last_kernel_at: float | None
    slot_freed_at: float | None
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    kept_tokens: int
    wasted_tokens: int
    layers_after_cancel: int
    drafted_tokens: int
    accepted_tokens: int


def receipt_for(lease: Lease, reason: CancelReason, epoch: float, slot_freed_at: float | None, phase: str) -> Receipt:
    """The receipt of a lease that ended by a cancel; `epoch` is when the executor's clock was 0."""

    def wall(at: float | None) -> float | None:
        return None if at is None else epoch + at

    assert lease.mark.at is not None
    return Receipt(
        request_id=lease.request_id,
        index=lease.index,
        reason=reason,
        phase=phase,
        detected_at=epoch + lease.mark.at,
        last_kernel_at=wall(lease.last_kernel_at),
        slot_freed_at=wall(slot_freed_at),
        prompt_tokens=len(lease.prompt),
        cached_tokens=lease.cached,
        computed_tokens=lease.computed,
        kept_tokens=lease.committed,
        wasted_tokens=lease.computed - lease.committed,
        layers_after_cancel=lease.layers_after_cancel,
        drafted_tokens=lease.drafted,
        accepted_tokens=lease.accepted,
    )


class ReceiptLog:
    """The newest receipts, and counts over all of them.  Written by the slot manager only."""

    def __init__(self, capacity: int = 1024) -> None:
        self._receipts: deque[Receipt] = deque(maxlen=capacity)
        self.counts: dict[CancelReason, int] = dict.fromkeys(CancelReason, 0)

    def add(self, receipt: Receipt) -> None:
        self._receipts.append(receipt)
        self.counts[receipt.reason] += 1

    def newest(self, limit: int) -> list[Receipt]:
        """At most `limit` receipts, newest first."""
        newest = list(self._receipts)[::-1]
        return newest[: max(limit, 0)]
