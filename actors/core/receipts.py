"""Receipts: what each cancel cost, from the moment it was noticed to the moment its slot was free."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
