"""What passes between an actor and the slot manager: a lease, the work submitted under it, and one-shot replies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

from actors.core.events import ActorPhase, Cancelled, PhaseBegun, Submitted
from actors.core.slots import SlotState
from runtime.step.step import CancelMark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import outcome

    from actors.core.observer import Observers
    from actors.core.receipts import CancelReason
    from actors.core.slots import Slot
    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.token_chain import TokenChain
    from runtime.sampling.tokens import DraftToken, SampledToken, SampleSpec
    from runtime.step.transfer import KVData, Transfer

T = TypeVar("T")

CATCH_UP = 16  # more rows than a round leaves behind: a drafter that is given so many has missed something


class Reply(Generic[T]):
    """A one-shot answer that one task waits for.  It begins to wait in the same turn in which it asks."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    def set(self, result: outcome.Outcome[T]) -> None:
        """Answer.  An answer that comes after the waiter was cancelled goes nowhere."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task, result)

    async def wait(self, on_cancel: Callable[[], None]) -> T:
        """The answer; `on_cancel` runs in the very moment that the waiter is cancelled."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            on_cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        answer: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return answer


@dataclass(frozen=True, slots=True)
class Chunk:
    """The reply to a piece of work: how many of its rows were committed, and the tokens that follow.

    `tokens` are the accepted drafts and the one drawn after them; none where only a part of the work was served.
    """

    rows: int
    tokens: tuple[SampledToken, ...] = ()


@dataclass(slots=True, eq=False)
class Work:
    """Rows that an actor wants run.

    Prefill work may be served in part, and so may a drafter's that has to catch up; the actor submits the rest again.

    Attributes:
        token_ids: those that follow what the slot has KV of, the drafter's KV in phase DRAFT.
        sample, drafts: as in `Segment`.
    """

    lease: Lease
    phase: SlotState
    token_ids: Sequence[int]
    sample: SampleSpec
    drafts: Sequence[DraftToken] = ()
    reply: Reply[Chunk] = field(default_factory=Reply)
    suspect: bool = False  # was in a step that raised: runs alone, so that only the culprit fails

    @property
    def is_bulk(self) -> bool:
        """Whether it may be served in part: a prompt, or what a drafter has missed."""
        return self.phase is SlotState.PREFILL or (self.phase is SlotState.DRAFT and len(self.token_ids) > CATCH_UP)


@dataclass(slots=True, eq=False)
class Move:
    """KV that an actor wants moved: into its slot, in place of computing it, or out of it, to be looked at.

    Attributes:
        tokens: what the slot's tokens grow by; those whose KV it is.
        on_trial: keys of the blocks among it, which no step has run over yet.
        stands_on: these, and the names of those that they may have been computed after.
        still_valid: asked right before; what it says no to is not moved.
    """

    lease: Lease
    transfers: Sequence[Transfer]
    tokens: Sequence[int]
    on_trial: Sequence[BlockKey]
    stands_on: Sequence[BlockKey]
    still_valid: Callable[[], bool]
    reply: Reply[list[KVData | None] | None] = field(default_factory=Reply)


class Manager(Protocol):
    """What a lease needs of the slot manager."""

    observers: Observers

    def now(self) -> float: ...
    def post(self, mail: Work | Move | Lease) -> None: ...
    async def restore(self, lease: Lease) -> None: ...
    async def audit(self, lease: Lease) -> bool: ...
    def restart(self, lease: Lease) -> None: ...
    def draft_start(self, lease: Lease) -> int: ...
    def neighbours(self, lease: Lease) -> int: ...


@dataclass(slots=True, eq=False)
class Lease:
    """One generation's claim on a slot, from its place in the queue to the release.

    Opened and ended by `SlotManager.hold`.  The figures at the end are kept by the manager, for the receipt.
    """

    manager: Manager
    request_id: str
    index: int
    prompt: TokenChain
    reuse: bool = True  # may serve the prompt from KV that is already there

    slot: Slot | None = None  # None while queued
    cached: int = 0  # leading prompt tokens that were there at the grant
    pending: Work | Move | None = None
    leaders: list[tuple[Lease, int]] = field(default_factory=list)  # who reads the same prefix, and how long it is
    restored: list[BlockKey] = field(default_factory=list)
    audited: tuple[int, Block] | None = None  # a block that is computed again to be compared, and its position
    lost: str | None = None  # why the device was, and with it whatever this lease held or waited for
    mark: CancelMark = field(default_factory=CancelMark)
    grant: Reply[None] = field(default_factory=Reply)
    released: trio.Event = field(default_factory=trio.Event)

    reason: CancelReason | None = None
    computed: int = 0
    committed: int = 0
    last_kernel_at: float | None = None
    layers_after_cancel: int = 0
    drafted: int = 0
    accepted: int = 0
    keep: int | None = None  # at the end, no more than so many tokens are those of the output

    @property
    def owner(self) -> tuple[str, int]:
        """The identity under which the slot table knows this lease."""
        return self.request_id, self.index

    @property
    def length(self) -> int:
        """Committed tokens of the slot."""
        assert self.slot is not None
        return len(self.slot.tokens)

    @property
    def is_led(self) -> bool:
        """Whether someone who was granted a slot earlier is reading what this prompt shares: it is read once."""
        return any(
            leader.slot is not None
            and not leader.released.is_set()
            and leader.mark.at is None
            and leader.slot.state is SlotState.PREFILL
            and max(leader.length, self.length) < shared
            for leader, shared in self.leaders
        )

    @property
    def phase(self) -> str:
        """queued, then whatever the slot is doing."""
        return "queued" if self.slot is None else self.slot.state.value

    @property
    def draft_start(self) -> int:
        """The first position that the drafter has not read and can read."""
        return self.manager.draft_start(self)

    async def submit(
        self, phase: SlotState, token_ids: Sequence[int], sample: SampleSpec, drafts: Sequence[DraftToken] = ()
    ) -> Chunk:
        """Have rows run that follow the slot's committed tokens, and await what became of them.

        Raises:
            StepFailed: the device failed over these rows.
            DeviceLost: the device was lost while the lease held a slot.
        """
        work = Work(self, phase, token_ids, sample, drafts)
        if (observers := self.manager.observers).submitted:
            observers.tell(observers.submitted, Submitted(*self.owner, phase, len(token_ids), work.is_bulk))
        self.manager.post(work)
        return await work.reply.wait(self.note_cancel)

    async def move(
        self,
        transfers: Sequence[Transfer],
        tokens: Sequence[int],
        *,
        on_trial: Sequence[BlockKey] = (),
        stands_on: Sequence[BlockKey] = (),
        still_valid: Callable[[], bool] = lambda: True,
    ) -> list[KVData | None] | None:
        """Have KV moved between two steps; what each transfer gave, or None if nothing was moved after all.

        Raises:
            DeviceLost: the device was lost while the lease held a slot.
        """
        move = Move(self, transfers, tokens, on_trial, stands_on, still_valid)
        self.manager.post(move)
        return await move.reply.wait(self.note_cancel)

    def note_cancel(self) -> None:
        """Mark the work cancelled, now: the device thread sees it at its next layer boundary."""
        if self.mark.at is None:
            self.mark.set(now := self.manager.now())
            if (observers := self.manager.observers).cancelled:
                observers.tell(observers.cancelled, Cancelled(*self.owner, now))

    def turn_to(self, phase: ActorPhase) -> None:
        """Say what the actor is at from now on."""
        if (observers := self.manager.observers).phase_begun:
            observers.tell(observers.phase_begun, PhaseBegun(*self.owner, phase))
