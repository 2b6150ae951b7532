"""Handles that an actor has of the slot manager: a ticket while it waits in the queue, then a hold on a slot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from actors.control import NO_CONTROL, Control
from actors.core.commands import Audit, CopyPrefix, LoadBlocks, Restart, Submit, Trim
from actors.core.events import Cancelled, Emitted, Ended, StageBegun, Submitted
from actors.core.reply import Reply
from runtime.step.prompt_rows.wanted import NO_OUTPUTS
from runtime.step.step import CancelMark

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.core.account import Account
    from actors.core.commands import Chunk, Command, Fetched, Loaded
    from actors.core.events import ActorStage
    from actors.core.generation import Failed, Finished
    from actors.core.life import State
    from actors.core.observer import Observers
    from actors.core.slot_views import GenerationKey, Session, SlotView
    from runtime.kv.blocks import Block, BlockKey
    from runtime.kv.token_chain import TokenChain
    from runtime.sampling.tokens import DraftToken, SampleSpec
    from runtime.step.prompt_rows.wanted import PromptOutputs

T = TypeVar("T")


class Manager(Protocol):
    """Interface of the slot manager that tickets and holds need."""

    @property
    def observers(self) -> Observers:
        """Observers of the engine."""

    def now(self) -> float:
        """Now, on the executor's clock."""

    def post(self, command: Command) -> None:
        """Put a command into the mailbox."""

    def draft_start(self, slot: SlotView) -> int:
        """The first position that the drafter has not read and can read."""

    def neighbours(self, hold: Hold) -> int:
        """Return how many others generate tokens now, and so have rows in most steps."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Importance of a generation, and what is known of its work before it begins.

    Attributes:
        priority: the lower, the earlier; those of one number are a class.
        weight: of its owner's share in that class.
        most_tokens: that it may generate; None where only the context bounds that.
        deadline: on Trio's clock; infinite where there is none.
    """

    priority: int = 0
    weight: float = 1.0
    most_tokens: int | None = None
    deadline: float = math.inf


DEFAULT_RANK = Rank()

LEAST_IMPORTANT = 2**63
"""A priority behind all that can be asked for."""


@dataclass(slots=True, eq=False)
class QueuePlace:
    """A generation's place in the queue, and then in a slot; the slot manager's task alone changes it.

    Others look at it, to wait for its end or to take it over: it names nobody, so nothing that has ended is kept.

    Attributes:
        number: the order of the places; whoever takes one over has its number.
        goes_first: it goes before all that wait, for it was taken over from one that had a slot.
        is_granted: it is, or was, in a slot.
        is_left: nothing is left of the generation.
    """

    number: int = 0
    goes_first: bool = False
    is_granted: bool = False
    is_left: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One generation's claim to a slot.

    Attributes:
        manager: to whom it is to be given.
        request_id, index: which generation it is.
        prompt: with the names of its blocks.
        reserved: how many tokens its sequence may come to have, the prompt's included.
        reuse: whether KV that is already there may serve the prompt.
        owner: the name of the API key that asked; None where there are no keys.
        queue_share: how much of the queue the owner's tickets may take, from 0 to 1.
        session: whose slot is the first to be displaced; None where the client named none.
        rank: how important it is among those who wait.
        control: what the client says of the request's fate.
        succeeds: whose places it takes, in the queue or in a slot, once they have been left.
        after: it is granted nothing before these have been left.
        place: its own.
        mark: set in the moment in which the generation is cancelled; the device looks at it at each layer boundary.
        granted: the hold, or `DeviceLost`.
        ended: the account, once nothing of it is left.
    """

    manager: Manager
    request_id: str
    index: int
    prompt: TokenChain
    reserved: int
    reuse: bool = True
    owner: str | None = None
    queue_share: float = 1.0
    session: Session | None = None
    rank: Rank = DEFAULT_RANK
    control: Control = NO_CONTROL
    succeeds: tuple[QueuePlace, ...] = ()
    after: tuple[QueuePlace, ...] = ()
    place: QueuePlace = field(default_factory=QueuePlace)
    mark: CancelMark = field(default_factory=CancelMark)
    granted: Reply[Hold] = field(default_factory=Reply)
    ended: Reply[Account] = field(default_factory=Reply)

    @property
    def key(self) -> GenerationKey:
        """The generation's identity."""
        return self.request_id, self.index

    @property
    def is_warm(self) -> bool:
        """Return whether its prompt is read ahead of time, while nobody else has work."""
        return self.control.warm

    @property
    def is_due(self) -> bool:
        """Return whether all places have been left that it waits for."""
        return all(place.is_left for place in (*self.succeeds, *self.after))

    def note_cancel(self) -> None:
        """Mark the generation cancelled, now: the device thread sees it at its next layer boundary."""
        if self.mark.at is None:
            now = self.mark.set(self.manager.now)
            if (observers := self.manager.observers).cancelled:
                observers.tell(observers.cancelled, Cancelled(*self.key, now))

    def tell_emitted(self, tokens: int) -> None:
        """Say that so many tokens were added to the output."""
        if (observers := self.manager.observers).emitted:
            observers.tell(observers.emitted, Emitted(*self.key, tokens))

    def tell_ended(self, last: Finished | Failed) -> None:
        """Say that the generation is over, and how."""
        if (observers := self.manager.observers).ended:
            observers.tell(observers.ended, Ended(*self.key, last))

    def turn_to(self, stage: ActorStage) -> None:
        """Say what the actor is at from now on."""
        if (observers := self.manager.observers).stage_begun:
            observers.tell(observers.stage_begun, StageBegun(*self.key, stage))


class Figures(Protocol):
    """Figures of its hold's ledger that an actor may see."""

    @property
    def cached(self) -> int:
        """Leading prompt tokens whose KV did not have to be computed, so far."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The last tokens of a preempted sequence, fewer than a block's: a block of their own in memory.

    Attributes:
        key: its name.
        first: the number that a complete block would have in its place.
        end: the position behind the last of them.
    """

    key: BlockKey
    first: int
    end: int


@dataclass(slots=True, eq=False)
class Hold:
    """One generation's hold on a slot, from the grant to the release: what it may see and ask.

    Opened and ended by `Handle.hold`.  A generation that was preempted has it still, without a slot; afterwards it
    is a hold on the slot that it goes on in.  The slot manager's task alone changes that.

    Attributes:
        ticket: that was granted.
        slot: to look at.
        figures: so far.
        prompt: what is to be read before its next token, with the names of its blocks: the request's prompt, or, once
            it was preempted, its sequence up to its newest token.
        kept: tokens that it had in its slot when it was preempted last; 0 if it never was.
        tail: those of them that are no complete block.
    """

    ticket: Ticket
    slot: SlotView
    figures: Figures
    prompt: TokenChain = field(init=False)
    kept: int = field(default=0, init=False)
    tail: Tail | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin with the request's prompt."""
        self.prompt = self.ticket.prompt

    @property
    def request_id(self) -> str:
        """Id of the request that the generation belongs to."""
        return self.ticket.request_id

    @property
    def length(self) -> int:
        """Committed tokens of the slot."""
        return len(self.slot.tokens)

    @property
    def cached(self) -> int:
        """Leading prompt tokens whose KV did not have to be computed, so far."""
        return self.figures.cached

    @property
    def draft_start(self) -> int:
        """The first position that the drafter has not read and can read."""
        return self.ticket.manager.draft_start(self.slot)

    @property
    def neighbours(self) -> int:
        """Return how many others generate tokens now, and so have rows in most steps."""
        return self.ticket.manager.neighbours(self)

    def turn_to(self, stage: ActorStage) -> None:
        """Say what the actor is at from now on."""
        self.ticket.turn_to(stage)

    async def submit(
        self,
        phase: State,
        token_ids: Sequence[int],
        sample: SampleSpec | None,
        drafts: Sequence[DraftToken] = (),
        outputs: PromptOutputs = NO_OUTPUTS,
        most_tokens: int = 1,
    ) -> Chunk:
        """Have rows run that follow the slot's committed tokens, and await what became of them; see `Submit`.

        Raises:
            StepFailed: the device failed over these rows.
            WasPreempted: they were not run.
            DeviceLost: the device was lost since the grant.
        """
        command = Submit(self.ticket, phase, token_ids, sample, drafts, outputs, most_tokens)
        if (observers := self.ticket.manager.observers).submitted:
            event = Submitted(*self.ticket.key, phase, len(token_ids), command.is_bulk)
            observers.tell(observers.submitted, event)
        return await self._ask(command, command.reply)

    async def follow(self, following: Reply[Chunk]) -> Chunk:
        """Await what became of a token that was in a step already when its actor was told of it.

        Raises:
            StepFailed, WasPreempted, DeviceLost: as for `submit`.
        """
        return await following.wait(self.ticket.note_cancel)

    async def copy_prefix(self, source: int, end: int) -> bool:
        """Have KV of the prompt of another slot, up to position `end`; False if the device failed.

        Raises:
            DeviceLost: the device was lost since the grant.
        """
        command = CopyPrefix(self.ticket, source, end)
        return await self._ask(command, command.reply)

    async def load_blocks(self, fetched: Fetched, first: int, *, is_last: bool) -> Loaded | None:
        """Have blocks of the prompt loaded, from number `first` on; None if nothing was.

        Raises:
            DeviceLost: the device was lost since the grant.
        """
        command = LoadBlocks(self.ticket, fetched, first, is_last)
        return await self._ask(command, command.reply)

    async def audit(self, start: int, block: Block, restored: Collection[BlockKey]) -> bool:
        """Have KV at `start` compared with a block that was cached; where it differs, `restored` is found wrong.

        Raises:
            DeviceLost: the device was lost since the grant.
        """
        command = Audit(self.ticket, start, block, tuple(restored))
        return await self._ask(command, command.reply)

    async def restart(self, restored: Collection[BlockKey]) -> None:
        """Have the slot emptied, to read the whole prompt; the blocks that were restored are never used again.

        Raises:
            DeviceLost: the device was lost since the grant.
        """
        command = Restart(self.ticket, tuple(restored))
        await self._ask(command, command.reply)

    def trim(self, length: int) -> None:
        """Have no more than so many tokens kept."""
        self.ticket.manager.post(Trim(self.ticket, length))

    async def _ask(self, command: Command, reply: Reply[T]) -> T:
        """Post a command, and await its answer; a cancel sets the mark in its very moment."""
        self.ticket.manager.post(command)
        return await reply.wait(self.ticket.note_cancel)
