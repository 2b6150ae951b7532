"""Commands from actors to the slot manager: frozen data, which its task alone applies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from actors.core.life import State
from actors.core.reply import Reply
from runtime.step.prompt_rows.wanted import NO_OUTPUTS, NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.core.hold import Ticket
    from actors.core.receipts import CancelReason
    from runtime.errors import DeviceLost
    from runtime.kv.blocks import Block, BlockKey
    from runtime.sampling.tokens import DraftToken, SampledToken, SampleSpec
    from runtime.step.prompt_rows.wanted import PromptOutputs, RowsGiven


class WasPreempted(Exception):
    """The answer to rows that were not run: their generation was preempted, and has another slot now.

    What that lacks of its sequence (`Hold.prompt`) is to be brought back, or read again, before its next token.
    """


CATCH_UP = 16  # more rows than a round leaves behind: a drafter that is given so many has missed something


# --- on the queue: served also while a step runs ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Enqueue:
    """Give each of these a place in the queue, or none of them.

    The reply is `QueueFull` where too many wait, and `DeviceLost` where nobody may wait.
    """

    tickets: Sequence[Ticket]
    reply: Reply[None] = field(default_factory=Reply)


@dataclass(frozen=True, slots=True, eq=False)
class Withdraw:
    """Take a ticket out of the queue."""

    ticket: Ticket
    reason: CancelReason | None


@dataclass(frozen=True, slots=True, eq=False)
class Demote:
    """Let these be less important than all others, in the queue and in the steps; one that has ended is as it was."""

    tickets: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A chain of blocks that is to be loaded.

    Attributes:
        blocks: that follow one another.
        from_disk: keys of those that had to be read from there.
        alarms: of the cache, when the reading began.
    """

    blocks: tuple[Block, ...]
    from_disk: frozenset[BlockKey]
    alarms: int


# --- on slots: served between two steps ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunk:
    """The reply to `Submit`: what became of its rows.

    Attributes:
        rows: how many were committed.
        tokens: those that were drawn, the accepted drafts among them; none where only a part of the rows was served.
        given: what the rows gave besides KV.
        following: what becomes of the newest token, which is in a step already, as if it had been submitted; None where
            it is to be submitted.
    """

    rows: int
    tokens: tuple[SampledToken, ...] = ()
    given: RowsGiven = NOTHING
    following: Reply[Chunk] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Submit:
    """Have rows run.

    Prompt rows may be served in part, and so may those of a drafter that has to catch up; the actor submits the rest
    again.

    Attributes:
        ticket: whose slot they are for.
        phase: what they are for.
        token_ids: those that follow what the slot has KV of, the drafter's KV in phase `DRAFT`.
        sample, drafts: as in `Segment`.
        outputs: what the rows of a prompt are to give besides KV.
        most_tokens: that may be drawn one after the other, in steps that follow at once.
        reply: what became of them; `StepFailed` if the device failed over them, `WasPreempted` if they were not run,
            but for a prompt's, which are handed back.
    """

    ticket: Ticket
    phase: State
    token_ids: Sequence[int]
    sample: SampleSpec | None
    drafts: Sequence[DraftToken] = ()
    outputs: PromptOutputs = NO_OUTPUTS
    most_tokens: int = 1
    reply: Reply[Chunk] = field(default_factory=Reply)

    @property
    def is_bulk(self) -> bool:
        """Return whether it may be served in part: a prompt, or what a drafter has missed."""
        return self.phase is State.PREFILL or (self.phase is State.DRAFT and len(self.token_ids) > CATCH_UP)


@dataclass(frozen=True, slots=True, eq=False)
class CopyPrefix:
    """Have KV of the prompt of another slot, up to position `end`, if that slot still has it when the turn comes.

    Whole pages are shared; the rest, and what rings have, is copied.

    The reply is whether it is worth looking for more: not if the device failed.

    Attributes:
        source: the other slot.
    """

    ticket: Ticket
    source: int
    end: int
    reply: Reply[bool] = field(default_factory=Reply)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The reply to `LoadBlocks`: whose KV is in the slot now, and the block that is to be computed again instead.

    Attributes:
        keys: of the blocks.
        audited: the last one and its position, if it is to be compared with what the model computes.
    """

    keys: tuple[BlockKey, ...]
    audited: tuple[int, Block] | None


@dataclass(frozen=True, slots=True, eq=False)
class LoadBlocks:
    """Load blocks of the prompt into the slot; `first` is the number of the first of them.

    The reply is None if nothing was loaded: not one could be had, some may be wrong, or the device failed.

    Attributes:
        fetched: the blocks.
        is_last: no further blocks are there, so that the last of these may be chosen for an audit, and rings be filled.
    """

    ticket: Ticket
    fetched: Fetched
    first: int
    is_last: bool
    reply: Reply[Loaded | None] = field(default_factory=Reply)


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """Compare the KV at positions from `start` on with a block that was cached for them.

    Where they differ, nothing is used any more that came from the blocks `restored` or may have been computed after
    them.  The reply is whether they agree.
    """

    ticket: Ticket
    start: int
    block: Block
    restored: Collection[BlockKey]
    reply: Reply[bool] = field(default_factory=Reply)


@dataclass(frozen=True, slots=True, eq=False)
class Restart:
    """Empty the slot, to read the whole prompt; never use these blocks again, which were cached for it."""

    ticket: Ticket
    restored: Collection[BlockKey]
    reply: Reply[None] = field(default_factory=Reply)


@dataclass(frozen=True, slots=True, eq=False)
class Trim:
    """Keep no more than so many tokens: the output ended inside a run of accepted drafts, or behind it."""

    ticket: Ticket
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """Take the slot back; `reason` is None if the generation finished."""

    ticket: Ticket
    reason: CancelReason | None


@dataclass(frozen=True, slots=True)
class DiskHasSpace:
    """Offer the disk again what it has refused."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Steps can run again, or never will: `loss` says why."""

    loss: DeviceLost | None


QueueCommand: TypeAlias = Enqueue | Withdraw | Demote
KVCommand: TypeAlias = CopyPrefix | LoadBlocks | Audit
"""What the device is to move between two steps."""
SlotCommand: TypeAlias = Submit | KVCommand | Restart | Trim | End | DiskHasSpace | Recovered
Command: TypeAlias = QueueCommand | SlotCommand
