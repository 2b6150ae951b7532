"""Receipts: what each cancel cost, from the moment it was noticed to the moment its slot was free."""

from __future__ import annotations

import enum
import logging
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runtime.common.ownership import TaskOwner
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.core.account import Account
    from actors.core.hold import Ticket

logger = logging.getLogger("cede.engine")


class CancelReason(enum.StrEnum):
    """Reason why a generation ended before it was done."""

    DISCONNECT = "client_disconnect"
    DEADLINE = "deadline"
    QUEUE_TIMEOUT = "queue_timeout"
    STALLED_READER = "stalled_reader"
    OPERATOR = "operator"
    SHUTDOWN = "shutdown"
    FAULT = "fault"
    GROUP = "group"  # all of its group was ended
    SIBLING_WON = "sibling_won"  # another of its group finished first
    SUPERSEDED = "superseded"  # a newer request took its place
    PREFILL_FINISHED = "prefill_finished"  # the client hung up, and wanted its prompt to be read all the same
    ABANDONED = "abandoned"  # nobody came back to a request that was detached, within its bounds
    OTHER_WORK = "other_work"  # it read a prompt ahead of time, and somebody else had work


@dataclass(frozen=True, slots=True)
class Receipt:
    """Cost of one cancel.  Times are seconds since the epoch, comparable with one another to the microsecond.

    They are as far before the machine's time when the receipt was written as the executor's clock says.

    Attributes:
        index: which of the request's generations.
        phase: of its life; in `parked` it held no slot.
        last_kernel_at, slot_freed_at: None if it held no slot.
        computed_tokens: rows that the target's steps ran for it: always those that were kept and wasted together.
        kept_tokens: of these, those committed to its slot, where a retry finds them.
        wasted_tokens: of these, those dropped with the step in flight, or as drafts that were not accepted.
        layers_after_cancel: of the step in flight, that ended after `detected_at` with its rows still in the batch.
        owner: the name of the API key that asked; None where there are no keys.
        group: this and those below, to `warm`: what the request said of itself, in `cede`.
        parks: how often it had left its slot to a more important one.
        parked_seconds: for how long, in all.
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
    owner: str | None = None
    group: str | None = None
    supersede: str | None = None
    after: str | None = None
    warm: bool = False
    parks: int = 0
    parked_seconds: float = 0.0


class WallClock:
    """Turns times of the executor's clock into seconds since the epoch, as the machine's clock shows them now.

    That may have been set since the start, and the executor's may have stood still while the machine slept.  So no
    distance between the two is kept, and a time is to be turned soon after it was taken.

    Args:
        clock: the executor's.
        wall: seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self.now = wall

    def at(self, time: float) -> float:
        """Return the seconds since the epoch of a time on the executor's clock."""
        return time + (self.now() - self._clock())  # the distance first: it loses no digits of the time

    def ago(self, at: float) -> float:
        """Return for how many seconds the time `at`, in seconds since the epoch, is past."""
        return self.now() - at


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
