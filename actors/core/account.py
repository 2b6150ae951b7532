"""Accounting of one generation's work: a ledger while it holds a slot, a frozen account at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.life import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.common.ownership import TaskOwner
    from runtime.step.step import SegmentResult


@dataclass(frozen=True, slots=True)
class Account:
    """A generation's figures at its end; times are seconds on the executor's clock.

    Attributes:
        phase: the last that it was in.
        slot: that it held; None if it never had one.
        slot_freed_at: when that slot was free.
        cached: leading prompt tokens whose KV did not have to be computed.
        computed: rows that the target's steps ran for it.
        committed: those of them whose KV was valid at the end.
        drafted, accepted: tokens that were drafted for it and verified, and those that stood.
        last_kernel_at: when its rows last left the device; None if they never were there.
        layers_after_cancel: layers of the step in flight that ended after the cancel with its rows still in the batch.
        preemptions: how often it left its slot to a more important one, and came back or was cancelled meanwhile.
        preempted_seconds: for how long, in all.
    """

    phase: State = State.QUEUED
    slot: int | None = None
    slot_freed_at: float | None = None
    cached: int = 0
    computed: int = 0
    committed: int = 0
    drafted: int = 0
    accepted: int = 0
    last_kernel_at: float | None = None
    layers_after_cancel: int = 0
    preemptions: int = 0
    preempted_seconds: float = 0.0


class Ledger:
    """The figures of one hold while it lasts; the slot manager's task alone changes them.

    Args:
        owner: who may change it.
        cached: prompt tokens whose KV was in the slot at the grant.
    """

    def __init__(self, owner: TaskOwner, cached: int) -> None:
        self._owner = owner
        self._cached = cached
        self._computed = self._committed = 0
        self._drafted = self._accepted = 0
        self._computed_at: list[tuple[int, int]] = []
        self._last_kernel_at: float | None = None
        self._layers_after_cancel = 0
        self._preemptions = 0
        self._preempted_seconds = 0.0

    @property
    def preemptions(self) -> int:
        """Number of times that it was preempted."""
        return self._preemptions

    @property
    def preempted_seconds(self) -> float:
        """For how long in all, but for the time since the last preemption if it has not come back."""
        return self._preempted_seconds

    @property
    def cached(self) -> int:
        """Leading prompt tokens whose KV did not have to be computed, so far."""
        return self._cached

    @property
    def committed(self) -> int:
        """Rows that were computed and whose KV is valid."""
        return self._committed

    @property
    def computed_at(self) -> Sequence[tuple[int, int]]:
        """Ranges of these rows: from one position to another, as they were computed."""
        return self._computed_at

    def note_step(self, result: SegmentResult, rows: int) -> None:
        """A step ended in which a layer at least ran over `rows` of this hold, on the target."""
        self._owner.check()
        self._layers_after_cancel = result.layers_after_cancel
        if result.last_kernel_at is not None:
            self._last_kernel_at = result.last_kernel_at
        self._computed += rows

    def note_committed(self, start: int, rows: int, drafted: int, accepted: int) -> None:
        """The KV of `rows` tokens from `start` on is valid; of `drafted` ones among what was run, `accepted` stood."""
        self._owner.check()
        self._committed += rows
        goes_on = bool(self._computed_at) and self._computed_at[-1][1] == start
        first = self._computed_at.pop()[0] if goes_on else start
        self._computed_at.append((first, start + rows))
        self._drafted += drafted
        self._accepted += accepted

    def note_transferred(self, tokens: int) -> None:
        """KV of so many prompt tokens was moved into the slot."""
        self._owner.check()
        self._cached += tokens

    def note_overwritten(self, tokens: int) -> None:
        """KV of so many cached tokens was spoilt by a move that broke off."""
        self._owner.check()
        self._cached -= tokens

    def note_preempted(self) -> None:
        """Note that it has left its slot to another."""
        self._owner.check()
        self._preemptions += 1

    def note_back(self, seconds: float) -> None:
        """Note that it has been preempted for so long, and is no more."""
        self._owner.check()
        self._preempted_seconds += seconds

    def note_invalidated(self) -> None:
        """Nothing that was computed is valid any longer."""
        self._owner.check()
        self._committed = 0
        self._computed_at.clear()

    def note_restart(self) -> None:
        """Nothing that was cached is used any longer."""
        self._owner.check()
        self._cached = 0

    def close(self, phase: State, slot: int | None, slot_freed_at: float | None) -> Account:
        """The account of a hold that is over; nothing of the device for one that was preempted, which had no slot."""
        was_held = slot is not None
        return Account(
            phase=phase,
            slot=slot,
            slot_freed_at=slot_freed_at,
            cached=self._cached,
            computed=self._computed,
            committed=self._committed,
            drafted=self._drafted,
            accepted=self._accepted,
            last_kernel_at=self._last_kernel_at if was_held else None,
            layers_after_cancel=self._layers_after_cancel if was_held else 0,
            preemptions=self._preemptions,
            preempted_seconds=self._preempted_seconds,
        )
